# SPDX-License-Identifier: Apache-2.0
# Man pages: docs/man/, with the lists of options that the programs print.
#
# A line `.\" options of PROGRAM WORDS` stands for the list.  Of nam-bench the words are a
# subcommand; of namctl they are the command that takes the options.

function(nam_manual program)
	set(source ${PROJECT_SOURCE_DIR}/docs/man/${program}.1)
	set(page ${PROJECT_BINARY_DIR}/share/man/man1/${program}.1)
	add_custom_command(OUTPUT ${page}
		COMMAND ${PROJECT_SOURCE_DIR}/docs/man/expand $<TARGET_FILE:${program}>
			${source} ${page}
		DEPENDS ${source} ${PROJECT_SOURCE_DIR}/docs/man/expand ${program}
		VERBATIM)
	add_custom_target(${program}-manual ALL DEPENDS ${page})
	install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${program})
endfunction()
