# SPDX-License-Identifier: Apache-2.0
# What gets installed, in components: libnam (the shared library), libnam-dev (headers, static
# library, pkg-config, CMake package), nam-memserver (the program, and the server as a library), and
# one for each of the other programs; programs come with their man pages.

include(CMakePackageConfigHelpers)
include(cmake/manual.cmake)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nam)
set(include_dir ${CMAKE_INSTALL_INCLUDEDIR}/nam)

install(TARGETS nam_shared EXPORT nam
	LIBRARY COMPONENT libnam NAMELINK_COMPONENT libnam-dev)
install(TARGETS nam_static EXPORT nam ARCHIVE COMPONENT libnam-dev)
install(TARGETS nam_memserver EXPORT nam ARCHIVE COMPONENT libnam-dev)

# Public headers keep their rooms, so that they include each other as they do here.
foreach(header nam.h
		common/counters.h common/error.h common/exit.h common/fiber/fiber.h common/gaddr.h
		common/version.h
		common/fabric/fabric.h common/fabric/request.h
		common/rpc/transport.h
		compute/client.h compute/remote.h
		index/index.h index/maintain.h index/options.h index/scan.h
		kv/kv.h kv/options.h
		memserver/server.h
		txn/records.h txn/table.h)
	cmake_path(GET header PARENT_PATH room)
	install(FILES ${header} DESTINATION ${include_dir}/${room} COMPONENT libnam-dev)
endforeach()

# Simulated networks: found beside the program's folder, so here, too.  The figures of the papers.
if(TARGET nam-bench)
	install(DIRECTORY deploy/profiles DESTINATION ${CMAKE_INSTALL_DATADIR}/nam
		COMPONENT nam-bench FILES_MATCHING PATTERN "*.ini")
	file(GLOB figures CONFIGURE_DEPENDS bench/figures/*.py)
	install(FILES ${figures} DESTINATION ${CMAKE_INSTALL_DATADIR}/nam/figures
		COMPONENT nam-bench)
	install(PROGRAMS bench/figures/draw DESTINATION ${CMAKE_INSTALL_DATADIR}/nam/figures
		COMPONENT nam-bench)
endif()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/nam)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/deploy/profiles ${PROJECT_BINARY_DIR}/share/nam/profiles
	SYMBOLIC)

foreach(program nam-memserver nam-bench namctl)
	if(TARGET ${program})
		nam_manual(${program})
	endif()
endforeach()
if(TARGET nam-bench)
	configure_file(docs/man/nam-bench-peers.1 share/man/man1/nam-bench-peers.1 COPYONLY)
	install(FILES docs/man/nam-bench-peers.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
		COMPONENT nam-bench)
endif()

# Relative to where nam.pc lies, so that the tree may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
	OUTPUT_VARIABLE libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
	OUTPUT_VARIABLE includedir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
	BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
set(private_libs "-pthread")
if(context)
	string(APPEND private_libs " -lboost_context")
endif()
set(private_requires "")
if(verbs)
	set(private_requires " librdmacm libibverbs")
endif()
foreach(pc nam nam-memserver)
	configure_file(cmake/${pc}.pc.in ${pc}.pc @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
		COMPONENT libnam-dev)
endforeach()

install(EXPORT nam NAMESPACE nam:: DESTINATION ${package_dir} COMPONENT libnam-dev
	FILE namTargets.cmake)
configure_package_config_file(cmake/namConfig.cmake.in namConfig.cmake
	INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(namConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
	${PROJECT_BINARY_DIR}/namConfig.cmake ${PROJECT_BINARY_DIR}/namConfigVersion.cmake
	DESTINATION ${package_dir} COMPONENT libnam-dev)
