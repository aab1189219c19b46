# SPDX-License-Identifier: Apache-2.0
# The libraries that nam is built on.  tests/run installs the Debian packages.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)	# libxxhash-dev: its header only
pkg_check_modules(numa REQUIRED IMPORTED_TARGET numa)		# libnuma-dev
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)	# libsodium-dev
pkg_check_modules(inih REQUIRED IMPORTED_TARGET inih)		# libinih-dev
pkg_check_modules(cjson IMPORTED_TARGET libcjson)		# libcjson-dev, for the programs
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl)	# libcurl4-openssl-dev, for stewards
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)	# libmicrohttpd-dev
if(NAM_TESTS)
	pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)	# libcmocka-dev
endif()

# InfiniBand, RoCE and Soft-RoCE.  Without these libraries nam is built without verbs.
set(verbs "")
if(NAM_VERBS)
	pkg_check_modules(ibverbs IMPORTED_TARGET libibverbs)	# libibverbs-dev
	pkg_check_modules(rdmacm IMPORTED_TARGET librdmacm)	# librdmacm-dev
	if(ibverbs_FOUND AND rdmacm_FOUND)
		set(verbs PkgConfig::rdmacm PkgConfig::ibverbs)
	else()
		message(WARNING "The fabric 'verbs' is left out: libibverbs and librdmacm were not "
			"found.  Install libibverbs-dev and librdmacm-dev, or configure with "
			"-DNAM_VERBS=OFF")
	endif()
endif()

# The switch of fibers, where common/fiber/switch.h has none of its own for the processor.  On
# x86-64 it serves one test.  From the archive, two functions in assembly come alone; the shared
# library would bring the C++ runtime into every process.
find_library(NAM_BOOST_CONTEXT NAMES libboost_context.a boost_context)	# libboost-context-dev
set(context "")
if(NAM_FIBER_BOOST OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
	if(NOT NAM_BOOST_CONTEXT)
		message(FATAL_ERROR "boost_context was not found: install libboost-context-dev")
	endif()
	set(context ${NAM_BOOST_CONTEXT})
endif()

add_library(nam_dependencies INTERFACE)
target_include_directories(nam_dependencies SYSTEM INTERFACE ${xxhash_INCLUDE_DIRS})
target_link_libraries(nam_dependencies INTERFACE
	PkgConfig::numa PkgConfig::inih PkgConfig::sodium ${verbs} ${context} Threads::Threads)
if(verbs)
	target_compile_definitions(nam_dependencies INTERFACE NAM_VERBS=1)
endif()
