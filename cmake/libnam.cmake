# SPDX-License-Identifier: Apache-2.0
# libnam, the client library: common, compute, index, kv and txn; once static, once shared.

set(objects "")
foreach(room common compute index kv txn)
	if(TARGET nam_${room}_objects)
		list(APPEND objects $<TARGET_OBJECTS:nam_${room}_objects>)
	endif()
endforeach()

add_library(nam_static STATIC ${objects})
add_library(nam_shared SHARED ${objects})
add_library(nam::nam ALIAS nam_shared)
add_library(nam::nam_static ALIAS nam_static)

foreach(library nam_static nam_shared)
	set_target_properties(${library} PROPERTIES OUTPUT_NAME nam LINKER_LANGUAGE C)
	target_include_directories(${library} INTERFACE
		$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
set_target_properties(nam_shared PROPERTIES
	EXPORT_NAME nam
	VERSION ${PROJECT_VERSION}
	SOVERSION 0
	LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/nam.map)

# Outside this tree there are no targets for what we build on, only names.
set(installed_dependencies $<INSTALL_INTERFACE:numa> $<INSTALL_INTERFACE:inih>
	$<INSTALL_INTERFACE:sodium> $<INSTALL_INTERFACE:Threads::Threads>)
if(verbs)	# namConfig.cmake makes it, for a wholly static program needs every driver
	list(APPEND installed_dependencies $<INSTALL_INTERFACE:nam::verbs>)
endif()
if(context)
	list(APPEND installed_dependencies $<INSTALL_INTERFACE:boost_context>)
endif()
target_link_libraries(nam_static PUBLIC $<BUILD_INTERFACE:nam_dependencies>
	INTERFACE ${installed_dependencies})
target_link_libraries(nam_shared PRIVATE $<BUILD_INTERFACE:nam_dependencies>
	$<BUILD_INTERFACE:nam_flags>)
target_link_options(nam_shared PRIVATE
	-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/nam.map
	-Wl,--as-needed -Wl,-Bsymbolic-functions)
if(NOT NAM_SANITIZE)	# whose run-time library comes with the program
	target_link_options(nam_shared PRIVATE -Wl,--no-undefined)
endif()
