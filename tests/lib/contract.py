# SPDX-License-Identifier: ISC
"""openapi.json against what happens.

Every answer that a test's client gets is held against the document: a JSON
body must fit the schema of its operation and status. With POSTERN_RECORD the
pairs are written down, and `contract.py FILE` fails for each documented
response that no test brought about.
"""
import json
import os
import re
import sys

import jsonschema

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
METHODS = ("get", "post", "patch", "put", "delete")

with open(os.path.join(TOP, "api", "openapi.json"), encoding="utf-8") as _f:
    DOC = json.load(_f)


def operations():
    """(method, path, operation, item), aliases too."""
    for path, item in DOC["paths"].items():
        for method in METHODS:
            if method in item:
                for p in [path] + item.get("x-aliases", []):
                    yield method.upper(), p, item[method], item


def _routes():
    found = []
    for method, path, op, _ in operations():
        pattern = re.sub(r"{\w+}", "[^/]+", path)
        # fixed segments before parameters, as the server has it
        found.append(([s.startswith("{") for s in path.split("/")], method,
                      re.compile(pattern), op))
    return sorted(found, key=lambda r: r[0])


ROUTES = _routes()


def find(method, target):
    path = target.partition("?")[0]
    for _, m, pattern, op in ROUTES:
        if m == method and pattern.fullmatch(path):
            return op
    return None


def resolve(node):
    while "$ref" in node:
        target = DOC
        for step in node["$ref"].lstrip("#/").split("/"):
            target = target[step]
        node = target
    return node


def response(op, status):
    """(name in the document, the response)"""
    name = str(status) if str(status) in op["responses"] else "default"
    return name, resolve(op["responses"][name])


_validators = {}


def _validator(op, name, schema):
    key = op["operationId"], name
    if key not in _validators:
        # references are to the whole document
        whole = dict(schema, components=DOC["components"])
        _validators[key] = jsonschema.Draft202012Validator(whole)
    return _validators[key]


def check(method, target, status, headers, body):
    """`body` is a document or bytes. Raises when it is not as documented."""
    op = find(method, target)
    if op is None:
        return
    name, found = response(op, status)
    v0 = target.startswith("/v0/")
    if isinstance(body, (dict, list)):
        content = found.get("content", {})
        assert "application/json" in content, (method, target, status)
        schema = content["application/json"].get("schema")
        if schema is not None and not v0:
            error = next(_validator(op, name, schema).iter_errors(body), None)
            assert error is None, "%s %s %s: %s at %s" % (
                method, target, status, error.message,
                list(error.absolute_path))
    if os.environ.get("POSTERN_RECORD"):
        with open(os.environ["POSTERN_RECORD"], "a", encoding="utf-8") as f:
            f.write("%s %s\n" % (op["operationId"], name))


def missing(lines):
    seen = {tuple(line.split()) for line in lines}
    wanted = {(op["operationId"], name) for _, _, op, _ in operations()
              for name in op["responses"]}
    return sorted(wanted - seen)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        lines = f.read().splitlines()
    for op, name in missing(lines):
        print("never answered: %s %s" % (op, name))
    # it could fail: without one of its lines it does
    if lines and len(missing(lines[:1])) <= len(missing(lines)):
        print("the recorder does not notice what is missing")
        return 1
    return 1 if missing(lines) else 0


if __name__ == "__main__":
    sys.exit(main())
