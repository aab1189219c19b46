# SPDX-License-Identifier: Apache-2.0
# Debian packages, one of each component of package.cmake: cmake --build DIR --target package, or
# cpack --config DIR/CPackConfig.cmake.

# Absolute, so of packages only: cmake --install leaves /etc alone.
install(FILES deploy/cluster.ini DESTINATION /etc/nam COMPONENT nam-server-etc EXCLUDE_FROM_ALL)
foreach(package libnam0 libnam-dev nam-server nam-tools)
	install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
		RENAME copyright COMPONENT ${package} EXCLUDE_FROM_ALL)
	string(TOUPPER ${package} upper)
	set(CPACK_COMPONENT_${upper}_GROUP ${package}.deb)
	set(CPACK_DEBIAN_${upper}.DEB_PACKAGE_NAME ${package})
endforeach()
set(CPACK_COMPONENT_NAM-SERVER-ETC_GROUP nam-server.deb)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL libnam0 libnam-dev nam-server nam-server-etc nam-tools)
set(CPACK_PACKAGE_CONTACT "nam developers <nam@localhost>" CACHE STRING
	"Maintainer in the Debian packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_LIBNAM0.DEB_DESCRIPTION
	"client library of nam, network-attached memory for databases")
set(CPACK_DEBIAN_LIBNAM0.DEB_PACKAGE_SECTION libs)

# nam.pc requires what libnam.a needs, and pkg-config looks for it even if it prints nothing of it.
set(dev_depends "libnam0 (= ${PROJECT_VERSION}), libnuma-dev, libinih-dev, libsodium-dev")
if(verbs)
	string(APPEND dev_depends ", libibverbs-dev, librdmacm-dev")
endif()
if(context)
	string(APPEND dev_depends ", libboost-context-dev")
endif()
set(CPACK_DEBIAN_LIBNAM-DEV.DEB_DESCRIPTION
	"headers, static libraries and manual of the client library of nam")
set(CPACK_DEBIAN_LIBNAM-DEV.DEB_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBNAM-DEV.DEB_PACKAGE_DEPENDS "${dev_depends}")

set(CPACK_DEBIAN_NAM-SERVER.DEB_DESCRIPTION
	"memory server and steward of nam, network-attached memory for databases")
set(CPACK_DEBIAN_NAM-SERVER.DEB_PACKAGE_SECTION net)
set(CPACK_DEBIAN_NAM-SERVER.DEB_PACKAGE_RECOMMENDS systemd)
file(WRITE ${PROJECT_BINARY_DIR}/debian/conffiles "/etc/nam/cluster.ini\n")
set(CPACK_DEBIAN_NAM-SERVER.DEB_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/conffiles
	${PROJECT_SOURCE_DIR}/deploy/debian/postinst ${PROJECT_SOURCE_DIR}/deploy/debian/prerm
	${PROJECT_SOURCE_DIR}/deploy/debian/postrm)

set(CPACK_DEBIAN_NAM-TOOLS.DEB_DESCRIPTION
	"shell tool and benchmarks of nam, network-attached memory for databases")
set(CPACK_DEBIAN_NAM-TOOLS.DEB_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_NAM-TOOLS.DEB_PACKAGE_RECOMMENDS "python3, python3-matplotlib")

include(CPack)
