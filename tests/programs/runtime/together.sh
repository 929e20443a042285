#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes several programs of this folder to standard output as one source file, each in a namespace of its own. Its
# main calls the program whose name it was started with. This saves time, because headers dominate the compilation of
# such programs.
#
# usage: together.sh PROGRAM...   (in any folder)
set -eu
cd "$(dirname "$0")"
here=$(pwd)
for name; do
        cat "$name.cu"
done | grep -E '^#include <' | sort -u
echo "#include \"$here/runtime.h\""
for name; do
        printf 'namespace program_%s {\n#include "%s/%s.cu"\n}\n' "$name" "$here" "$name"
done
cat <<'END'
/* main as it may be written */
template <int (*program)()> int program_call(int, char **)
{
        return program();
}
template <int (*program)(int, char **)> int program_call(int argc, char **argv)
{
        return program(argc, argv);
}

int main(int argc, char **argv)
{
        const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];

END
for name; do
        printf '        if (!strcmp(name, "%s"))\n                return program_call<program_%s::main>(argc, argv);\n' "$name" "$name"
done
cat <<'END'
        fprintf(stderr, "%s: there is no such program\n", name);
        return 2;
}
END
