// An empty C++ program: the cost of any process.
#include <string>

int main(int argc, char** /*argv*/) { return std::to_string(argc).empty() ? 1 : 0; }
