# SPDX-License-Identifier: Apache-2.0
# The installed files, in components, which are the Debian packages of debian.cmake: libnam0 (the
# shared library), libnam-dev (headers, static libraries, pkg-config, CMake package, man3),
# nam-server (nam-memserver, nam-steward and their units) and nam-tools (the other programs).
# Programs come with their man pages, and each component with the documents of its readers.

include(CMakePackageConfigHelpers)
include(cmake/manual.cmake)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nam)
set(include_dir ${CMAKE_INSTALL_INCLUDEDIR}/nam)

install(TARGETS nam_shared EXPORT nam
	LIBRARY COMPONENT libnam0 NAMELINK_COMPONENT libnam-dev)
install(TARGETS nam_static EXPORT nam ARCHIVE COMPONENT libnam-dev)
install(TARGETS nam_memserver EXPORT nam ARCHIVE COMPONENT libnam-dev)

# Public headers keep their rooms, so that they include each other as they do here.
set(headers nam.h
	common/counters.h common/error.h common/exit.h common/fiber/fiber.h common/gaddr.h
	common/version.h
	common/fabric/endpoint.h common/fabric/fabric.h common/fabric/handshake.h
	common/fabric/request.h
	common/rpc/figures.h common/rpc/transport.h
	compute/admin.h compute/client.h compute/remote.h
	index/changes.h index/index.h index/maintain.h index/options.h index/scan.h
	kv/kv.h kv/options.h
	memserver/server.h
	txn/isolation.h txn/phases.h txn/records.h txn/scans.h txn/serializable.h txn/sweep.h
	txn/table.h)
foreach(header IN LISTS headers)
	cmake_path(GET header PARENT_PATH room)
	install(FILES ${header} DESTINATION ${include_dir}/${room} COMPONENT libnam-dev)
endforeach()
nam_header_manual(${headers})

# Simulated networks: found beside the program's folder, so here, too.  The figures of the papers.
if(TARGET nam-bench)
	install(DIRECTORY deploy/profiles DESTINATION ${CMAKE_INSTALL_DATADIR}/nam
		COMPONENT nam-tools FILES_MATCHING PATTERN "*.ini")
	file(GLOB figures CONFIGURE_DEPENDS bench/figures/*.py)
	install(FILES ${figures} DESTINATION ${CMAKE_INSTALL_DATADIR}/nam/figures
		COMPONENT nam-tools)
	install(PROGRAMS bench/figures/draw DESTINATION ${CMAKE_INSTALL_DATADIR}/nam/figures
		COMPONENT nam-tools)
endif()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/nam)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/deploy/profiles ${PROJECT_BINARY_DIR}/share/nam/profiles
	SYMBOLIC)

install(FILES deploy/grafana/nam.json DESTINATION ${CMAKE_INSTALL_DATADIR}/nam/grafana
	COMPONENT nam-server)
nam_manual(nam-memserver nam-server)
nam_manual(nam-bench nam-tools)
nam_manual(namctl nam-tools)
nam_manual(nam-steward nam-server)
if(TARGET nam-bench)
	nam_manual(nam-bench-peers nam-tools)
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

# A service of each memory server; deploy/systemd has examples of its files in /etc.
install(FILES deploy/systemd/nam-memserver@.service DESTINATION lib/systemd/system
	COMPONENT nam-server)
install(FILES deploy/systemd/nam-steward.service DESTINATION lib/systemd/system
	COMPONENT nam-server)
install(FILES deploy/systemd/nam.sysusers DESTINATION lib/sysusers.d RENAME nam.conf
	COMPONENT nam-server)

# Documents keep their places, so that they lead to each other.
function(nam_documents component)
	foreach(document IN LISTS ARGN)
		cmake_path(GET document PARENT_PATH folder)
		install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder}
			COMPONENT ${component})
	endforeach()
endfunction()
nam_documents(libnam-dev README.md ARCHITECTURE.md LICENSE docs/README.md docs/c-api.md
	common/README.md compute/README.md index/README.md kv/README.md txn/README.md)
nam_documents(nam-server docs/deploying.md docs/fabrics.md docs/transports.md memserver/README.md
	deploy/README.md deploy/cluster.ini deploy/cluster-tcp.ini deploy/systemd/memserver.env)
nam_documents(nam-tools docs/shell.md tools/README.md bench/README.md)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT libnam-dev
	FILES_MATCHING PATTERN "*.[ch]" PATTERN "README.md")

if(PROJECT_IS_TOP_LEVEL)
	include(cmake/debian.cmake)
endif()
