include(CMakePackageConfigHelpers)

install(TARGETS htensor EXPORT htensor-targets)
install(TARGETS htensor_program)
install(DIRECTORY include/htensor DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/htensor)
install(EXPORT htensor-targets NAMESPACE htensor:: DESTINATION ${config_folder})
configure_package_config_file(cmake/htensor-config.cmake.in htensor-config.cmake INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(htensor-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/htensor-config.cmake" "${PROJECT_BINARY_DIR}/htensor-config-version.cmake"
  DESTINATION ${config_folder})

if(HT_SANITIZE)
  set(HT_PC_SANITIZE "-fsanitize=${HT_SANITIZE}")
endif()
configure_file(cmake/htensor.pc.in htensor.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/htensor.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_CONTACT "the H-Tensor maintainers")
set(CPACK_PACKAGE_VENDOR "H-Tensor")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libexpected-dev")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
include(CPack)
