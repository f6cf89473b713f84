function(cachalot_test_options target)
  # Precompiled, the library's own headers are no system headers any more, and GCC 12 finds faults in them.
  target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-error -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
  # Optimising a test takes longer than running it as it stands.
  target_compile_options(${target} PRIVATE -O0)
endfunction()

# The headers that every test includes, read once for all test programs: half of what a test takes to build.
function(cachalot_test_headers target)
  if(NOT TARGET cachalot_test_headers)
    file(WRITE ${CMAKE_BINARY_DIR}/test_headers.cc "")
    add_library(cachalot_test_headers OBJECT ${CMAKE_BINARY_DIR}/test_headers.cc)
    target_link_libraries(cachalot_test_headers PRIVATE GTest::gmock fmt::fmt nlohmann_json::nlohmann_json)
    cachalot_test_options(cachalot_test_headers)
    target_precompile_headers(cachalot_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <nlohmann/json.hpp>)
  endif()
  cachalot_test_options(${target})
  target_precompile_headers(${target} REUSE_FROM cachalot_test_headers)
endfunction()

# A room is a folder of src/ and one static library. Its headers are reached through a link farm,
# build/rooms/<room>/, that only the rooms that name it under USES see: an include against the
# direction of the architecture does not build.
#
#   cachalot_room(NAME tokenizer SOURCES a.cc b.cc TESTS a_test.cc USES io LIBRARIES PkgConfig::PCRE2)
#
# makes the target cachalot_tokenizer and, where there are TESTS, the program tokenizer_test. SOURCES may be
# empty (a room of headers). TEST_USES and TEST_LIBRARIES are for the tests alone; TEST_PROCESSORS is how many of them
# keep busy. TESTS_AS_SHIPPED: they are built under sanitizers with CACHALOT_SANITIZE_ALL alone. APART: files of the room have names for
# themselves in common, so that they are never built as one.
function(cachalot_room)
  cmake_parse_arguments(ROOM "APART;TESTS_AS_SHIPPED" "NAME;TEST_PROCESSORS" "SOURCES;TESTS;USES;LIBRARIES;TEST_USES;TEST_LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" id ${ROOM_NAME})
  set(farm ${CMAKE_BINARY_DIR}/rooms/${id})
  get_filename_component(parent ${farm}/${ROOM_NAME} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${farm}/${ROOM_NAME} SYMBOLIC)

  if(ROOM_SOURCES)
    add_library(cachalot_${id} STATIC ${ROOM_SOURCES})
    if(CACHALOT_UNITY AND NOT ROOM_APART)
      # Half the time to build it all.
      set_target_properties(cachalot_${id} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    endif()
    set(scope PUBLIC)
  else()
    add_library(cachalot_${id} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(cachalot_${id} ${scope} ${farm})
  foreach(used IN LISTS ROOM_USES)
    string(REPLACE "/" "_" used_id ${used})
    target_link_libraries(cachalot_${id} ${scope} cachalot_${used_id})
  endforeach()
  target_link_libraries(cachalot_${id} ${scope} ${ROOM_LIBRARIES})

  if(ROOM_TESTS AND CACHALOT_TESTS AND NOT (ROOM_TESTS_AS_SHIPPED AND CACHALOT_SANITIZE AND NOT CACHALOT_SANITIZE_ALL))
    add_executable(${id}_test ${ROOM_TESTS})
    cachalot_test_headers(${id}_test)
    target_link_libraries(${id}_test PRIVATE cachalot_${id} GTest::gmock_main ${ROOM_TEST_LIBRARIES})
    foreach(used IN LISTS ROOM_TEST_USES)
      string(REPLACE "/" "_" used_id ${used})
      target_link_libraries(${id}_test PRIVATE cachalot_${used_id})
    endforeach()
    target_compile_definitions(${id}_test PRIVATE CACHALOT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME unit.${id} COMMAND ${id}_test)
    if(NOT TARGET unit_tests)
      add_custom_target(unit_tests)
    endif()
    add_dependencies(unit_tests ${id}_test)
    set_tests_properties(unit.${id} PROPERTIES LABELS unit)
    if(ROOM_TEST_PROCESSORS)
      set_tests_properties(unit.${id} PROPERTIES PROCESSORS ${ROOM_TEST_PROCESSORS})
    endif()
  endif()
endfunction()
