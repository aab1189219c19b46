# SPDX-License-Identifier: Apache-2.0
# A room is a folder; its sources, with those of the folders in it, become one object library,
# nam_<room>_objects.

# nam_room(<name> [EXCEPT <file>...]): all sources below this folder but the excepted files.  A room
# without sources makes no target.
function(nam_room name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "EXCEPT")
	file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.c)
	foreach(file IN LISTS arg_EXCEPT)
		cmake_path(ABSOLUTE_PATH file NORMALIZE)
		list(REMOVE_ITEM sources ${file})
	endforeach()
	if(NOT sources)
		return()
	endif()
	add_library(nam_${name}_objects OBJECT ${sources})
	set_target_properties(nam_${name}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
	target_link_libraries(nam_${name}_objects PRIVATE nam_flags nam_dependencies)
endfunction()

# nam_program(<name> <source>...): built from the static libraries, so that it runs where it lies.
function(nam_program name)
	add_executable(${name} ${ARGN})
	target_link_libraries(${name} PRIVATE nam_flags)
	if(TARGET nam_memserver)
		target_link_libraries(${name} PRIVATE nam_memserver)
	endif()
	target_link_libraries(${name} PRIVATE nam_static)
endfunction()
