# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=DIR -DHEADER=FILE -P commit.cmake: the commit that is being built, for programs
# that print it.  Run with every build; the file is written only if it says something else, so
# nothing is compiled anew for nothing.  Where there is no git, or no repository: "unknown".

cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git --no-optional-locks describe --always --dirty --exclude=*
	WORKING_DIRECTORY ${SOURCE}
	RESULT_VARIABLE failed OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed OR NOT commit)
	set(commit unknown)
endif()
set(text "/* By tests/sim/commit.cmake. */\n#define NAM_SIM_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS ${HEADER})
	file(READ ${HEADER} old)
endif()
if(NOT text STREQUAL old)
	file(WRITE ${HEADER} "${text}")
endif()
