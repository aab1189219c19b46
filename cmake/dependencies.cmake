# SPDX-License-Identifier: Apache-2.0
# What we build on.  tests/run installs the Debian packages.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)	# libxxhash-dev
pkg_check_modules(numa REQUIRED IMPORTED_TARGET numa)		# libnuma-dev
pkg_check_modules(inih REQUIRED IMPORTED_TARGET inih)		# libinih-dev
pkg_check_modules(cjson IMPORTED_TARGET libcjson)		# libcjson-dev, for the programs
if(NAM_TESTS)
	pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)	# libcmocka-dev
endif()

# Two functions in assembly.  From the archive they come alone; the shared library would bring the
# C++ runtime into every process and a jump through the PLT into every switch.
find_library(NAM_BOOST_CONTEXT NAMES libboost_context.a boost_context)	# libboost-context-dev
if(NOT NAM_BOOST_CONTEXT)
	message(FATAL_ERROR "boost_context was not found: install libboost-context-dev")
endif()

add_library(nam_dependencies INTERFACE)
target_link_libraries(nam_dependencies INTERFACE
	PkgConfig::xxhash PkgConfig::numa PkgConfig::inih ${NAM_BOOST_CONTEXT} Threads::Threads)
