#include "cli/commands.h"

int main(int argc, char** argv) { return cachalot::RunProgram(argc, argv); }
