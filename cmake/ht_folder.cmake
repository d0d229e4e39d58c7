# ht_folder(NAME base SOURCES error.cpp TESTS error_test.cpp [TESTS_WITHOUT_UNITY] FUZZERS x_fuzz.cpp DEPS … LINK …)
#
# Adds the target ht_NAME for the folder src/NAME. The folder may include the folders in DEPS, and their DEPS;
# tools/check_arrows.py checks includes against the same lines. LINK lists private libraries of the sources.
# TESTS_WITHOUT_UNITY compiles each test source as its own translation unit.
function(ht_folder)
  cmake_parse_arguments(ARG "TESTS_WITHOUT_UNITY" "NAME" "SOURCES;TESTS;FUZZERS;DEPS;LINK" ${ARGN})
  set(deps "")
  foreach(dep IN LISTS ARG_DEPS)
    list(APPEND deps ht_${dep})
  endforeach()

  if(ARG_SOURCES)
    add_library(ht_${ARG_NAME} OBJECT ${ARG_SOURCES})
    target_include_directories(ht_${ARG_NAME} PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(ht_${ARG_NAME} PUBLIC tl::expected ${deps} PRIVATE ht_flags ht_fmt ${ARG_LINK})
    set_target_properties(ht_${ARG_NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    ht_unity(ht_${ARG_NAME} 8)
    # Coverage reports to libFuzzer which code an input reaches. No fuzzer reaches the excluded folders.
    if(HT_FUZZ AND NOT ARG_NAME MATCHES "^(device|compute|convert|load|c)$")
      target_compile_options(ht_${ARG_NAME} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  else()
    add_library(ht_${ARG_NAME} INTERFACE)
    target_link_libraries(ht_${ARG_NAME} INTERFACE tl::expected ${deps})
  endif()

  if(HT_TESTS AND ARG_TESTS)
    set(without_unity "")
    if(ARG_TESTS_WITHOUT_UNITY)
      set(without_unity WITHOUT_UNITY)
    endif()
    ht_test(NAME ${ARG_NAME}_test SOURCES ${ARG_TESTS} LINK ${ARG_LINK} ${without_unity})
  endif()
  if(HT_FUZZ)
    if(ARG_FUZZERS AND NOT TARGET ht_fuzz_format)
      add_library(ht_fuzz_format OBJECT "${PROJECT_SOURCE_DIR}/src/format/fuzz_format.cpp")
      target_include_directories(ht_fuzz_format PUBLIC "${PROJECT_SOURCE_DIR}/src")
      target_link_libraries(ht_fuzz_format PUBLIC htensor PRIVATE ht_flags)
    endif()
    foreach(source IN LISTS ARG_FUZZERS)
      get_filename_component(stem "${source}" NAME_WE)
      add_executable(${stem} "${source}")
      target_link_libraries(${stem} PRIVATE ht_fuzz_format htensor ht_flags ${ARG_LINK})
      target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
      set_target_properties(${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzzers")
    endforeach()
  endif()
endfunction()

# Adds the objects of folders to a library or program. A folder without sources has no objects.
function(ht_add_objects target)
  foreach(folder IN LISTS ARGN)
    get_target_property(type ht_${folder} TYPE)
    if(type STREQUAL "OBJECT_LIBRARY")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:ht_${folder}>)
    endif()
  endforeach()
endfunction()

# Compiles up to COUNT sources of a target as one translation unit, which reads headers and instantiates
# templates only once. Names in anonymous namespaces must therefore be unique in a folder. Sources with
# options of their own are compiled alone.
function(ht_unity target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HT_UNITY} UNITY_BUILD_BATCH_SIZE ${count})
endfunction()

# Adds a GoogleTest program. ctest runs each of its tests separately. WITHOUT_UNITY compiles every source as its own
# translation unit, for sources that instantiate many templates.
function(ht_test)
  cmake_parse_arguments(ARG "WITHOUT_UNITY" "NAME" "SOURCES;LINK" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${ARG_NAME} PRIVATE htensor ht_testing ht_flags ht_fmt GTest::gmock_main rapidcheck ${ARG_LINK})
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  if(NOT ARG_WITHOUT_UNITY)
    ht_unity(${ARG_NAME} 6)
  endif()
  # A huge allocation must return null, as without the sanitizer, instead of ending the test. Property tests
  # use a fixed seed. Tests run in the project's folder, because some read docs/io.md or files in ../shared
  # (src/testing/shared_folder.hpp).
  set(sanitizer ASAN_OPTIONS)
  set(sanitizer_options allocator_may_return_null=1)
  if(HT_SANITIZE MATCHES "thread")
    set(sanitizer TSAN_OPTIONS)
    # By default, ThreadSanitizer ends a child of a process with several threads if the child starts a thread. Some
    # tests fork such children. ThreadSanitizer reports false races in OpenBLAS, which is compiled without it.
    string(APPEND sanitizer_options ":die_after_fork=0:suppressions='${PROJECT_SOURCE_DIR}/cmake/tsan_suppressions.txt'")
  endif()
  gtest_discover_tests(${ARG_NAME} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES
    TIMEOUT 120 ENVIRONMENT_MODIFICATION "${sanitizer}=set:${sanitizer_options}" ENVIRONMENT "RC_PARAMS=seed=20261115")
endfunction()
