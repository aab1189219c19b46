# SPDX-License-Identifier: Apache-2.0
# Man pages: docs/man/, with the lists of options that the programs print.
#
# A line `.\" options of PROGRAM WORDS` stands for the list.  Of nam-bench the words are a
# subcommand; of namctl they are the command that takes the options.

# A program that is no target is a script, which build/<preset>/bin has.
function(nam_manual program component)
	set(file ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${program})
	set(source ${PROJECT_SOURCE_DIR}/docs/man/${program}.1)
	set(page ${PROJECT_BINARY_DIR}/share/man/man1/${program}.1)
	add_custom_command(OUTPUT ${page}
		COMMAND ${PROJECT_SOURCE_DIR}/docs/man/expand ${file}
			${source} ${page}
		DEPENDS ${source} ${PROJECT_SOURCE_DIR}/docs/man/expand ${file}
		VERBATIM)
	add_custom_target(${program}-manual ALL DEPENDS ${page})
	install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
endfunction()

# nam_header_manual(<header>...): section 3, from the public headers.
function(nam_header_manual)
	set(folder ${PROJECT_BINARY_DIR}/share/man/man3)
	list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
	add_custom_command(OUTPUT ${folder}/nam.3
		COMMAND ${PROJECT_SOURCE_DIR}/docs/man/headers ${folder} ${ARGN}
		WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
		DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/docs/man/headers
		VERBATIM)
	add_custom_target(header-manual ALL DEPENDS ${folder}/nam.3)
	install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3
		COMPONENT libnam-dev)
endfunction()
