#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""deploy/quickstart without the packages: build, set up, run, stop.

Everything lives under one state folder; sockets lie in a short path of their
own because a unix socket's path may have at most 107 bytes.
"""
import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import pwd
import re
import secrets
import shlex
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
PG_BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
LOGINS = ("l_gateway", "l_review", "l_worker", "l_ctl", "l_seal", "l_auth",
          "l_migrate")
REDIS_USERS = ("gw", "admin", "worker", "ctl", "monitor")
INBOX, TENANT, DOMAIN = "agent@agents.example", "demo", "agents.example"
OPERATOR = "operator"
STOP_SECONDS = 70
PR_SET_PDEATHSIG = 1


def say(text):
    print(text, flush=True)


def die(text):
    print("quickstart: " + text, file=sys.stderr, flush=True)
    sys.exit(1)


def write_private(path, text):
    path = pathlib.Path(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as out:
        out.write(text)
    os.chmod(path, 0o600)


# ---- whose files these are ------------------------------------------------
def become_user():
    """Leave root: the caller of sudo, or a user of our own."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.getuid()), False
    uid = os.environ.get("SUDO_UID")
    if uid and uid != "0":
        user = pwd.getpwuid(int(uid))
    else:
        try:
            user = pwd.getpwnam("postern-qs")
        except KeyError:
            run(["useradd", "--system", "--home-dir",
                 "/var/lib/postern-quickstart", "--shell",
                 "/usr/sbin/nologin", "postern-qs"])
            user = pwd.getpwnam("postern-qs")
    return user, True


def paths(args, user, was_root):
    own = was_root and user.pw_name == "postern-qs"
    if args.state:
        state = pathlib.Path(args.state).absolute()
    elif own:
        state = pathlib.Path("/var/lib/postern-quickstart")
    else:
        home = os.environ.get("XDG_STATE_HOME") if not was_root else None
        base = home or os.path.join(user.pw_dir, ".local", "state")
        state = pathlib.Path(base) / "postern-quickstart"
    tag = hashlib.sha256(str(state).encode()).hexdigest()[:8]
    if was_root:
        sockets = pathlib.Path("/run/postern-qs-" + tag)
    elif os.environ.get("XDG_RUNTIME_DIR"):
        sockets = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / (
            "postern-qs-" + tag)
    else:
        sockets = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / (
            f"postern-qs-{os.getuid()}-{tag}")
    return state, sockets


def is_plain(path):
    """make cannot build where a path has spaces or signs of the shell."""
    return re.fullmatch(r"[\w@%+,./-]+", str(path), re.A) is not None


def work_folder(state, user):
    """Where to build: in the state folder, if make can."""
    if is_plain(state):
        return state
    tag = hashlib.sha256(str(state).encode()).hexdigest()[:8]
    return pathlib.Path("/var/tmp") / f"postern-qs-{user.pw_uid}-{tag}"


def own_folder(path, user, mode):
    """Make a folder that only `user` can have made; refuse another's."""
    for folder in reversed([path, *path.parents]):
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        if os.geteuid() == 0:
            os.chown(folder, user.pw_uid, user.pw_gid, follow_symlinks=False)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != user.pw_uid:
        die(f"{path} belongs to somebody else")
    os.chmod(path, mode)


def drop(user):
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name,
                      LOGNAME=user.pw_name)


# ---- small tools ----------------------------------------------------------
def run(command, **kw):
    """Run to the end; what it said is shown only when it failed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **kw)
    if done.returncode != 0:
        die(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def die_with_parent(signal_number):
    libc = ctypes.CDLL("libc.so.6", use_errno=True)

    def setup():
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    return setup


class Quickstart:
    def __init__(self, args, user, state, sockets, work):
        self.args, self.user, self.work = args, user, work
        self.state, self.sockets = state, sockets
        self.children = []  # (name, Popen), in order of start
        self.timings = {}
        self.started = time.monotonic()
        base = args.port_base
        self.port = {"smtp": base + 587, "smtps": base + 465,
                     "api": base + 443, "admin": base + 444,
                     "capture": base + 25, "metrics": base + 580}
        prefix = pathlib.Path("/usr") if args.installed else work / "install"
        self.bin, self.sbin = prefix / "bin", prefix / "sbin"
        self.conf = state / "postern.conf"
        self.json = state / "quickstart.json"

    def step(self, name, work):
        begin = time.monotonic()
        work()
        self.timings[name] = round(time.monotonic() - begin, 2)
        say(f"  {name} ({self.timings[name]:.1f} s)")

    def program(self, name):
        for folder in (self.sbin, self.bin):
            if (folder / name).exists():
                return folder / name
        die(f"{name} was not installed")

    def ctl(self, *words):
        return run([self.program("posternctl"), "-c", self.conf, "--session",
                    self.state / "session", *words], cwd=self.state)

    def ctl_json(self, *words):
        text = self.ctl("--json", *words)
        rows = json.loads(text)
        return rows[0] if isinstance(rows, list) else rows

    # ---- build
    def build(self):
        """An out-of-tree build, installed beside it."""
        src, build = TOP, self.work / "build"
        build.mkdir(exist_ok=True)
        if not os.access(TOP, os.W_OK) or not is_plain(TOP):
            src = self.work / "source"
            shutil.copytree(TOP, src, dirs_exist_ok=True, symlinks=True,
                            ignore=shutil.ignore_patterns(
                                ".git", "build", "node_modules"))
        llhttp = self.work / "llhttp"
        log = open(self.state / "build.log", "w")

        def tool(command, cwd):
            done = subprocess.run([str(c) for c in command], cwd=cwd,
                                  stdout=log, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                tail = (self.state / "build.log").read_text()[-3000:]
                die(f"the build failed; see {self.state}/build.log\n{tail}")
        if not (llhttp / "share/llhttp/llhttp.c").exists():
            tool(["tools/fetch-llhttp", llhttp], src)
        if not (src / "configure").exists():
            tool(["./autogen.sh"], src)
        if not (build / "Makefile").exists():
            tool([src / "configure", "--quiet",
                  f"--prefix={self.work}/install",
                  f"--with-llhttp={llhttp}"], build)
        tool(["make", "-s", f"-j{os.cpu_count()}"], build)
        tool(["make", "-s", "install"], build)

    # ---- files
    def certificate(self):
        tls = self.state / "tls"
        tls.mkdir(exist_ok=True)
        if (tls / "cert.pem").exists():
            return
        x = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "825"]
        run([*x, "-keyout", tls / "ca.key", "-out", tls / "ca.pem", "-subj",
             "/CN=Postern quickstart CA", "-addext",
             "basicConstraints=critical,CA:TRUE", "-addext",
             "keyUsage=critical,keyCertSign,cRLSign"])
        run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-keyout", tls / "key.pem",
             "-out", tls / "csr.pem", "-subj", "/CN=localhost"])
        extensions = tls / "extensions"
        extensions.write_text(
            "subjectAltName=DNS:localhost,DNS:capture.localhost,"
            "IP:127.0.0.1,IP:::1\nextendedKeyUsage=serverAuth\n")
        run(["openssl", "x509", "-req", "-in", tls / "csr.pem", "-CA",
             tls / "ca.pem", "-CAkey", tls / "ca.key", "-CAcreateserial",
             "-days", "825", "-extfile", extensions, "-out",
             tls / "leaf.pem"])
        (tls / "cert.pem").write_text((tls / "leaf.pem").read_text() +
                                      (tls / "ca.pem").read_text())
        for key in ("ca.key", "key.pem"):
            os.chmod(tls / key, 0o600)

    def passwords(self):
        folder = self.state / "secrets"
        folder.mkdir(mode=0o700, exist_ok=True)
        names = [f"redis-{u}" for u in REDIS_USERS] + ["smarthost",
                                                       "operator"]
        for name in names:
            if not (folder / name).exists():
                write_private(folder / name, secrets.token_urlsafe(18) + "\n")

    def secret(self, name):
        return (self.state / "secrets" / name).read_text().strip()

    def write_conf(self):
        p, s, run_dir = self.port, self.state, self.sockets
        at = self.args.listen
        pages = ", ".join(f'"{a}:{p["admin"]}"' for a in (
            ("127.0.0.1", "[::1]") if at == "127.0.0.1" else (at,)))
        keys = "\n".join(
            f'\t{name}_file = "{s}/keys/{path}"' for name, path in (
                ("review_pub", "review.pub"), ("review_key", "review.key"),
                ("relay_pub", "relay.pub"), ("relay_key", "relay.key"),
                ("approve_key", "approve.key"), ("policy_key", "policy.key"),
                ("secrets_key", "%u.secrets.key"), ("seal_key", "seal.key"),
                ("auth_key", "auth.key"), ("auth_pub", "auth.pub"),
                ("identity_key", "identity.key"),
                ("identity_pub", "identity.pub"),
                ("deployment", "deployment.id")))
        self.conf.write_text(f"""# Written by deploy/quickstart at every start.
hostname = "localhost"
workers = 1
state_dir = "{s}/programs"
store {{
	socket = "{run_dir}"
	port = "5432"
	database = "postern"
}}
redis {{
	socket = "{run_dir}/redis.sock"
	password_file = "{s}/secrets/redis-%u"
}}
smtp {{
	listen = {{"{at}:{p['smtp']}"}}
	listen_tls = {{"{at}:{p['smtps']}"}}
}}
tls {{
	cert_file = "{s}/tls/cert.pem"
	key_file = "{s}/tls/key.pem"
}}
api {{
	listen = {{"{at}:{p['api']}"}}
	url = "https://127.0.0.1:{p['api']}"
}}
admin {{
	listen = {{{pages}}}
	url = "https://localhost:{p['admin']}"
	setup_token_file = "{s}/setup-token"
}}
auth {{
	socket = "{run_dir}/auth.sock"
}}
deliver {{
	smarthost = "localhost:{p['capture']}"
	smarthost_user = "postern"
	smarthost_password_file = "{s}/secrets/smarthost"
	smarthost_ca_file = "{s}/tls/ca.pem"
	allow_address = {{"127.0.0.0/8", "::1/128"}}
}}
keys {{
{keys}
}}
metrics {{
	listen = "127.0.0.1:{p['metrics']}"
}}
""")

    # ---- processes
    def start(self, name, command, stop_signal=signal.SIGTERM, stdout=None):
        logs = self.state / "log"
        logs.mkdir(exist_ok=True)
        err = open(logs / f"{name}.jsonl", "ab")
        child = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.DEVNULL,
            stdout=stdout or err, stderr=err, cwd=self.state,
            preexec_fn=die_with_parent(stop_signal))
        child.stop_signal = stop_signal
        self.children.append((name, child))
        return child

    def wait(self, what, test, seconds=30):
        """Poll a condition of another program's making, with an end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, child in self.children:
                if child.poll() is not None:
                    log = self.state / "log" / f"{name}.jsonl"
                    die(f"{name} ended with {child.returncode}:\n" +
                        log.read_text(errors="replace")[-3000:])
            if test():
                return
            time.sleep(0.05)
        die(f"{what} was not ready after {seconds} s; see {self.state}/log")

    def postgres(self):
        data = self.state / "postgres"
        if not (data / "PG_VERSION").exists():
            run([PG_BIN / "initdb", "-D", data, "-U", "postgres", "-N",
                 "--locale=C.UTF-8", "-E", "UTF8", "--data-checksums",
                 "--auth=peer"])
        (data / "pg_hba.conf").write_text("local all all peer map=postern\n")
        (data / "pg_ident.conf").write_text("".join(
            f"postern {self.user.pw_name} {login}\n"
            for login in ("postgres", *LOGINS)))
        (data / "postgresql.auto.conf").write_text(f"""\
listen_addresses = ''
unix_socket_directories = '{self.sockets}'
unix_socket_permissions = 0700
shared_buffers = 64MB
max_connections = 60
max_wal_size = 512MB
wal_level = minimal
max_wal_senders = 0
wal_compression = lz4
max_locks_per_transaction = 256
jit = off
fsync = on
synchronous_commit = on
full_page_writes = on
shared_preload_libraries = 'plpgsql'
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
""")
        self.start("postgres", [PG_BIN / "postgres", "-D", data],
                   signal.SIGINT)
        self.wait("PostgreSQL", lambda: subprocess.run(
            [PG_BIN / "pg_isready", "-q", "-h", self.sockets]
        ).returncode == 0)
        psql = ["psql", "-XAtq", "-h", self.sockets, "-U", "postgres"]
        if run([*psql, "-d", "postgres", "-c", "SELECT 1 FROM pg_database "
                "WHERE datname = 'postern'"]).strip() != "1":
            run([*psql, "-d", "postgres", "-c", "CREATE DATABASE postern"])

    def redis(self):
        digest = {u: hashlib.sha256(self.secret(f"redis-{u}").encode())
                  .hexdigest() for u in REDIS_USERS}
        rights = {
            "gw": "~rl* &ev:* &revoke -@all +fcall +get +set +time +ping "
                  "+auth +subscribe +psubscribe (+publish &wake)",
            "admin": "&wake &ev:* &revoke -@all +publish +ping +auth",
            "worker": "&wake &ev:* -@all +publish +subscribe +ping +auth",
            "ctl": "~rl* &* -@all +function +publish +ping +auth "
                   "+info +flushdb",
            "monitor": "-@all +info +ping +auth",
        }
        acl = self.state / "redis.acl"
        write_private(acl, "user default off\n" + "".join(
            f"user {u} on #{digest[u]} resetkeys resetchannels {rights[u]}\n"
            for u in REDIS_USERS))
        data = self.state / "redis"
        data.mkdir(exist_ok=True)
        path = self.sockets / "redis.sock"
        self.start("redis", [
            "redis-server", "--port", "0", "--unixsocket", path,
            "--unixsocketperm", "700", "--dir", data, "--aclfile", acl,
            "--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
            "--maxmemory", "64mb", "--maxmemory-policy", "noeviction"])

        def answers():
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(2)
                    s.connect(str(path))
                    s.sendall(b"AUTH monitor " +
                              self.secret("redis-monitor").encode() +
                              b"\r\nPING\r\n")
                    lines = s.makefile("rb")
                    return (lines.readline() == b"+OK\r\n" and
                            lines.readline() == b"+PONG\r\n")
            except OSError:
                return False
        self.wait("Redis", answers)

    def deployment(self):
        """Keys, schema, and what the demonstration needs, each once."""
        (self.state / "keys").mkdir(mode=0o700, exist_ok=True)
        (self.state / "programs").mkdir(mode=0o700, exist_ok=True)
        self.ctl("keygen")
        self.ctl("migrate", "--superuser", "postgres")
        self.ctl("maintain")
        self.ctl("redis", "load")
        made = self.state / "made.json"
        if made.exists():
            return
        password = self.state / "secrets" / "operator"
        self.ctl("operator", "create", OPERATOR, "--role", "admin",
                 "--password-file", password)
        self.ctl("login", OPERATOR, "--password-file", password)
        self.ctl("tenant", "create", TENANT, "--name", "Quickstart")
        self.ctl("domain", "add", DOMAIN, "--tenant", TENANT)
        self.ctl("domain", "verify", DOMAIN, "--force")
        claim = self.ctl_json("inbox", "create", INBOX, "--tenant", TENANT,
                              "--display-name", "Demo agent")
        keys = self.ctl_json("claim", claim["claim_code"])
        self.ctl("logout")
        write_private(made, json.dumps(
            {"key": keys["key"], "smtp_key": keys["smtp_key"]}))

    def programs(self):
        tls = self.state / "tls"
        capture = self.start("capture", [
            "/usr/bin/python3", "-B", HERE / "capture.py", "--listen",
            f"127.0.0.1:{self.port['capture']}", "--dir",
            self.state / "capture", "--cert", tls / "cert.pem", "--key",
            tls / "key.pem", "--user", "postern", "--password-file",
            self.state / "secrets" / "smarthost"], stdout=subprocess.PIPE)
        self.capture_lines = capture.stdout
        first = capture.stdout.readline()
        if not first.startswith(b"ready"):
            die("the capture server did not start; see log/capture.jsonl")
        for name in ("posternd", "postern-auth", "postern-admin",
                     "postern-deliver"):
            self.start(name, [self.program(name), "-c", self.conf])
        self.start("seal", [self.program("posternctl"), "-c", self.conf,
                            "seal", "--follow"])
        for url in self.metrics_urls():
            ready = url.replace("/metrics", "/readyz")
            self.wait(ready, lambda ready=ready: answers_200(ready))

    def metrics_urls(self):
        first = self.port["metrics"]
        return [f"http://127.0.0.1:{first + i}/metrics" for i in range(4)]

    # ---- what the reader of the terminal needs
    def write_json(self):
        made = json.loads((self.state / "made.json").read_text())
        p = self.port
        self.facts = {
            "smtp_host": "127.0.0.1", "smtp_port": p["smtp"],
            "smtps_port": p["smtps"],
            "api_url": f"https://127.0.0.1:{p['api']}",
            "admin_url": f"https://localhost:{p['admin']}",
            "ca_file": str(self.state / "tls" / "ca.pem"),
            "inbox": INBOX, "key": made["key"],
            "smtp_key": made["smtp_key"], "operator": OPERATOR,
            "operator_password": self.secret("operator"),
            "capture_dir": str(self.state / "capture"),
            "metrics_urls": self.metrics_urls(), "tenant": TENANT,
            "pid": os.getpid(), "undo_seconds": 10,
            "setup_token_file": str(self.state / "setup-token"),
            "config": str(self.conf), "bin": str(self.bin),
            "timings": dict(self.timings, total=round(
                time.monotonic() - self.started, 2)),
        }
        write_private(self.json, json.dumps(self.facts, indent=1) + "\n")
        ca = self.facts["ca_file"]
        write_private(self.state / "env", "".join(
            f"export {k}={shlex.quote(str(v))}\n" for k, v in (
                ("POSTERN_URL", self.facts["api_url"]),
                ("POSTERN_KEY", made["key"]),
                ("POSTERN_SMTP_KEY", made["smtp_key"]),
                ("POSTERN_SMTP", f"127.0.0.1:{p['smtp']}"),
                ("POSTERN_SMTPS", f"127.0.0.1:{p['smtps']}"),
                ("POSTERN_INBOX", INBOX), ("POSTERN_CONF", self.conf),
                ("CURL_CA_BUNDLE", ca), ("SSL_CERT_FILE", ca),
                ("REQUESTS_CA_BUNDLE", ca), ("NODE_EXTRA_CA_CERTS", ca))))

    def banner(self):
        f = self.facts
        say(f"""
Postern is running. Every message it takes waits for a person.

  pages     {f['admin_url']}  sign in as {f['operator']} / {f['operator_password']}
            (the certificate is signed by {f['ca_file']})
  SMTP      {f['smtp_host']}:{f['smtp_port']} STARTTLS, {f['smtps_port']} TLS
  REST      {f['api_url']}
  inbox     {f['inbox']}; its keys are in {self.state}/env
  arrivals  {f['capture_dir']}

Paste in another terminal:

  . {shlex.quote(str(self.state / 'env'))}
  curl -sS $POSTERN_URL/v1/messages/send -H "Authorization: Bearer $POSTERN_KEY" --json '{{"to": ["ann@example.org"], "subject": "By REST", "text": "Hello"}}'
  printf 'From: %s\\nTo: ann@example.org\\nSubject: By SMTP\\n\\nHello\\n' "$POSTERN_INBOX" | curl -sS --crlf --url smtps://$POSTERN_SMTPS --user "$POSTERN_INBOX:$POSTERN_SMTP_KEY" --mail-from "$POSTERN_INBOX" --mail-rcpt ann@example.org --upload-file -

Then approve on the page; what is approved arrives as a file.
This one-machine trial runs all programs as user {self.user.pw_name}, so the zones
share one system user; a real installation gives each its own.
""")

    def check_ports(self):
        """Before anything is built: what another program listens on."""
        base = self.args.port_base
        if not 1024 <= base <= 64900:
            die("--port-base must lie between 1024 and 64900")
        for port in (*list(self.port.values())[:5],
                     *(self.port["metrics"] + i for i in range(4))):
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    s.bind(("127.0.0.1", port))
                except OSError as e:
                    die(f"port {port}: {e.strerror}; choose other ports "
                        "with --port-base N")

    def up(self):
        say(f"Postern quickstart in {self.state}")
        self.check_ports()
        if not self.args.installed:
            self.step("build", self.build)
        self.step("certificate", self.certificate)
        self.step("secrets", self.passwords)
        self.write_conf()
        self.step("PostgreSQL", self.postgres)
        self.step("Redis", self.redis)
        self.step("schema, keys and demo inbox", self.deployment)
        self.step("programs", self.programs)
        self.write_json()

    def stop(self):
        for name, child in reversed(self.children):
            if child.poll() is None:
                child.send_signal(child.stop_signal)
                try:
                    child.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    say(f"{name} did not stop in time")
                    child.kill()
                    child.wait()
        self.children = []
        self.json.unlink(missing_ok=True)

    def follow(self):
        """Print arrivals until a signal or the end of a program."""
        import select
        while True:
            ready, _, _ = select.select([self.capture_lines], [], [], 1.0)
            if ready:
                line = self.capture_lines.readline()
                if line:
                    say(line.decode(errors="replace").rstrip())
            for name, child in self.children:
                if child.poll() is not None:
                    say(f"{name} ended with {child.returncode}; stopping")
                    return 1


def answers_200(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return reply.status == 200
    except OSError:
        return False


class Stopped(Exception):
    pass


def on_signal(number, frame):
    raise Stopped


def running_pid(state):
    try:
        pid = json.loads((state / "quickstart.json").read_text())["pid"]
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        # A container's numbers begin anew: what is written may be our own.
        return pid if b"quickstart" in command and pid != os.getpid() else None
    except (OSError, ValueError, KeyError):
        return None


def stop_running(state):
    pid = running_pid(state)
    if pid is None:
        say("nothing runs there")
        return
    fd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGTERM)
    import select
    if not select.select([fd], [], [], STOP_SECONDS + 10)[0]:
        die(f"process {pid} did not stop")
    say("stopped")


def serve(quick, tell=None):
    """Bring it up and stay; `tell` is a pipe end the parent waits on."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    code = 0
    try:
        quick.up()
        if tell is not None:
            os.write(tell, b"ready")
            os.close(tell)
            log = os.open(quick.state / "log" / "quickstart.log",
                          os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
        else:
            quick.banner()
        code = quick.follow()
    except Stopped:
        pass
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        quick.stop()
    return code


def detach(quick):
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.setsid()
        code = serve(quick, theirs)
        os._exit(code)
    os.close(theirs)
    if os.read(ours, 5) != b"ready":
        sys.exit(1)
    quick.facts = json.loads(quick.json.read_text())
    quick.banner()
    say(f"Stop it with: deploy/quickstart --stop --state {quick.state}")


def main():
    p = argparse.ArgumentParser(prog="deploy/quickstart")
    for flag in ("detach", "stop", "purge", "packages-only"):
        p.add_argument("--" + flag, action="store_true")
    # For deploy/oci: the Debian package's programs, on published ports.
    p.add_argument("--installed", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--listen", default="127.0.0.1", help=argparse.SUPPRESS)
    p.add_argument("--state")
    p.add_argument("--port-base", type=int, default=20000)
    args = p.parse_args()
    user, was_root = become_user()
    state, sockets = paths(args, user, was_root)
    if set(str(state)) & set("\"'\\\n$"):
        die("the state folder's path may not hold quotes, \\ or $")
    if args.stop or args.purge:
        stop_running(state)
        if args.purge:
            shutil.rmtree(state, ignore_errors=True)
            if not is_plain(state):
                shutil.rmtree(work_folder(state, user), ignore_errors=True)
            shutil.rmtree(sockets, ignore_errors=True)
            say(f"removed {state}")
        return
    if running_pid(state):
        die(f"already running in {state}; stop it with --stop first")
    own_folder(state, user, 0o700)
    own_folder(sockets, user, 0o700)
    work = work_folder(state, user)
    own_folder(work, user, 0o700)
    if was_root:
        drop(user)
    os.umask(0o077)
    quick = Quickstart(args, user, state, sockets, work)
    if args.detach:
        detach(quick)
    else:
        sys.exit(serve(quick))


if __name__ == "__main__":
    main()
