#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""
inside.py PORT COMMAND...: the first program in the sandbox.

Passes connections to 127.0.0.1:PORT on to the gateway's socket, which is the
only way out, and runs the command. TLS goes through: nothing is opened here.
"""
import socket
import subprocess
import sys
import threading

GATE = "/run/gate/gate.sock"


def pump(source, sink):
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(listener):
    while True:
        client, _ = listener.accept()
        gate = socket.socket(socket.AF_UNIX)
        gate.connect(GATE)
        for pair in ((client, gate), (gate, client)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


def main():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    sys.exit(subprocess.run(sys.argv[2:]).returncode)


if __name__ == "__main__":
    main()
