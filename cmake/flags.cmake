# SPDX-License-Identifier: Apache-2.0
# How every file of ours is compiled: nam_flags, an interface that targets link and never export.

add_library(nam_flags INTERFACE)

target_compile_features(nam_flags INTERFACE c_std_17)
target_include_directories(nam_flags INTERFACE ${PROJECT_SOURCE_DIR})
set(CMAKE_C_EXTENSIONS ON)

# Defined as empty, so that a file which also defines it does not clash.
target_compile_definitions(nam_flags INTERFACE _GNU_SOURCE=)

target_compile_options(nam_flags INTERFACE
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wpointer-arith
	-Wvla -Wconversion -Wno-sign-conversion -fno-common
	# The static and the shared library share their objects; calls among them stay direct.
	-fno-semantic-interposition)

# A fiber returns on a stack that another one called from, which shadow stacks forbid; so our
# objects must not claim to be fit for them.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
	target_compile_options(nam_flags INTERFACE -fcf-protection=none)
endif()

# All functions are bound at the start.  Otherwise the loader saves vector registers on the stack as
# a function is first called, and these may hold a part of a key: tests of common/auth/dump.
target_link_options(nam_flags INTERFACE -Wl,-z,relro,-z,now)

if(NAM_FIBER_BOOST)
	target_compile_definitions(nam_flags INTERFACE NAM_FIBER_BOOST=1)
endif()
if(NAM_SIM_POINTS)
	target_compile_definitions(nam_flags INTERFACE NAM_SIM_POINTS=1)
endif()

if(NAM_WERROR)
	target_compile_options(nam_flags INTERFACE -Werror)
endif()

if(NAM_SANITIZE)
	target_compile_options(nam_flags INTERFACE
		-fsanitize=${NAM_SANITIZE} -fno-sanitize-recover=all)
	target_link_options(nam_flags INTERFACE -fsanitize=${NAM_SANITIZE})
	# gcc warns that TSan knows no fences: races that only a fence prevents would be reported.
	if(NAM_SANITIZE MATCHES thread AND CMAKE_C_COMPILER_ID STREQUAL GNU)
		target_compile_options(nam_flags INTERFACE -Wno-tsan)
	endif()
endif()

# Coverage feedback for the code under test; only the fuzz programs get libFuzzer's main.
if(NAM_FUZZ)
	target_compile_options(nam_flags INTERFACE -fsanitize=fuzzer-no-link)
	target_link_options(nam_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# A plain `cmake -S . -B build` gets what the preset `release` has.  NDEBUG never: asserts stay on.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_C_FLAGS)
	target_compile_options(nam_flags INTERFACE -O3 -g)
endif()
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_MINSIZEREL "${CMAKE_C_FLAGS_MINSIZEREL}")
