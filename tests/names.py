"""Checks how the program's C is cut and named; prints its size. Used by tests/names.sh.

usage: names.py ROOT EXEMPT
EXEMPT: folders, separated by blanks, whose names are not checked yet.

A function's first word has to be a word of its file's name (`batch_begin` in batch.c or pager_batch.c), in singular or
plural, so that it says what it does without its file. Basenames of .c files and names of structs are unique, a header's
guard is its path (with another one after #define, a header is no longer guarded: clang says so, gcc does not), and every
function is used by the program, its tests or its benchmarks. Definitions are found by the layout that .clang-format gives them.
"""

import collections
import os
import re
import sys

DEFINITION = re.compile(r"^[a-z_][\w \t*]*?[ *](\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}", re.M | re.S)
PROTOTYPE = re.compile(r"^[a-z_][\w \t*]*?[ *](\w+)\([^;{}=]*\)(?:\s*__attribute__\(\(.*?\)\))?;", re.M)
CALL = re.compile(r"^CALL\((\w+)\)$", re.M)  # the head of a template's function (template_call.h)
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)\)?\s*(?=[a-z_])")
PASTED = re.compile(r"\bTABLE(?=\((\w+)\))")  # kernels' tables put an instruction set before it
INSTRUCTION_SET = re.compile(r"^kernels/(avx2|avx512|neon)\w*_(rotate|tc|tq|attention)\.[ch]")  # each defines what a shared body names
STRUCT = re.compile(r"^struct (\w+) \{", re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
KEPT = {"main"}


def sources(root, *tops):
    for top in tops:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def words(path):
    stem = os.path.splitext(os.path.basename(path))[0].split("_")
    return {form for word in stem for form in (word, word + "s", word.removesuffix("s"), word.removesuffix("es"))}


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def count_uses(used, text):
    """Adds the words of some C to `used`, without comments, strings and the names of prototypes."""
    code = COMMENT.sub(" ", text)
    used.update(re.findall(r"\w+", code))
    used.subtract(PROTOTYPE.findall(code))
    used.update("TABLE " + name for name in PASTED.findall(code))


def guard_faults(root):
    """Headers whose guard is not made of their path."""
    for path in sources(root, "cache", "engine", "fs", "kernels", "tests"):
        guards = re.findall(r"^#(?:ifndef|define) (MOEFS_\w+_H)$", read(root, path), re.M)
        name = "MOEFS_" + re.sub(r"\W", "_", path).upper()
        if path.endswith(".h") and guards and guards != [name, name]:
            yield f"{path}: its guard is not {name}, twice"


def repeated(places, exempt):
    """The names in several places, none of which is exempt."""
    return {name: where for name, where in places.items() if len(where) > 1 and not any(w.startswith(exempt) for w in where)}


def check(root, exempt):
    functions, structs, basenames = [], collections.defaultdict(set), collections.defaultdict(set)
    used, lines, count = collections.Counter(), 0, 0
    for path in sources(root, "cache", "engine", "fs", "kernels"):
        text = read(root, path)
        lines, count = lines + text.count("\n"), count + 1
        if path.endswith(".c"):
            basenames[os.path.basename(path)].add(path)
        text = CALL.sub(r"static void \1()", text)
        for match in STRUCT.finditer(text):
            structs[match[1]].add(INSTRUCTION_SET.sub("kernels", path))
        functions += [(path, m[1], m[3].count("\n")) for m in DEFINITION.finditer(ATTRIBUTE.sub("", text))
                      if m[1] != "TABLE"]  # TABLE(attend): the instruction set is its first word
        count_uses(used, text)
    for path in sources(root, "tests"):
        count_uses(used, read(root, path))
    used.subtract(name for _, name, _ in functions)
    faults = [f"{name}: {' and '.join(sorted(where))} have the same name" for name, where in repeated(basenames, exempt).items()]
    faults += [f"struct {name} is defined in {' and '.join(sorted(where))}" for name, where in repeated(structs, exempt).items()]
    faults += [f"{path}: {name} begins with no word of its file's name" for path, name, _ in functions
               if not path.startswith(exempt) and name != "main" and name.split("_")[0] not in words(path)]
    faults += [f"{path}: {name} is not used" for path, name, _ in functions
               if used[name] <= 0 and name not in KEPT and not used["TABLE " + name.partition("_")[2]]]
    faults += guard_faults(root)
    longest = max(functions, key=lambda f: f[2])
    print(f"# {lines} lines of C in {count} files, {len(functions)} functions; the longest is {longest[1]} "
          f"in {longest[0]} ({longest[2]} lines)")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[1], tuple(sys.argv[2].split()) or ("/",)))
