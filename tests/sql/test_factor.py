# SPDX-License-Identifier: ISC
"""Second factors: who can mark a session, and who cannot."""
import os
import time

import psycopg2
import pytest

from pgcluster import call, call1, sha256, submit

HASHES = [bytes([n]) * 32 for n in range(10)]
KEY = dict(credential=b"c" * 16, public_key=b"k" * 91, new_count=1,
           label="key", proof=b"p" * 64)
# What marks a session, and gives it another secret.
TURNS = {"totp_done_1", "recovery_use_1", "passkey_done_1", "passkey_add_1"}


@pytest.fixture()
def auth(db):
    c = db.connect("l_auth")
    yield c
    c.close()


class Person:
    number = 0

    def __init__(self, w, auth, role="admin"):
        Person.number += 1
        self.w, self.auth = w, auth
        self.name = "factor%d" % Person.number
        self.s = w.operator(self.name, role)

    def ask(self, fn, **more):
        """As postern-auth; a session that is marked has a new secret."""
        args, new = {"s": self.s, **more}, os.urandom(32)
        if fn in TURNS:
            args.setdefault("next_sha256", sha256(new))
        got = call1(self.auth, fn, **args)
        if fn in TURNS and got["status"] == 200 and not args.get("mid"):
            args["s"][:] = new
        return got

    def enrol(self):
        """TOTP, as postern-auth does after it saw the right code."""
        self.w.step_up(self.s, self.name)
        assert self.ask("totp_begin_1", sealed=b"s" * 60)["status"] == 200
        got = self.ask("totp_try_1", confirm=True)
        self.factor, self.used = got["factor_id"], self.step()
        return self.ask("totp_done_1", factor=self.factor, step=self.used,
                        hashes=HASHES)

    def step(self):
        return int(time.time()) // 30

    def marked(self):
        return call1(self.w.rv, "session_touch_1", s=self.s)["step_up_by"]

    def forget(self, su):
        """As if the mark and the last code were long ago."""
        su.cursor().execute(
            "UPDATE d.operator_session SET step_up_until = now() - "
            "interval '1 h' WHERE session_sha256 = %s", (sha256(self.s),))
        su.cursor().execute(
            "UPDATE d.operator_factor SET last_step = 0 WHERE factor_id = %s",
            (getattr(self, "factor", 0),))


@pytest.fixture()
def p(w, auth):
    return Person(w, auth)


def test_the_pages_login_cannot_mark(db, w, p, su):
    """A stolen login of postern-admin, with a live session of an operator
    who has a second factor, and even the password: no way to a mark."""
    assert p.enrol()["status"] == 200
    assert p.marked() == "totp"
    p.forget(su)
    assert p.marked() is None
    rv = db.connect("l_review")
    mine = {f for f, in rows(su, """SELECT p.proname FROM pg_proc p
        WHERE p.pronamespace = 'api'::regnamespace
        AND has_function_privilege('l_review', p.oid, 'EXECUTE')""")}
    for fn in ("totp_done_1", "totp_try_1", "totp_begin_1", "recovery_use_1",
               "recovery_set_1", "passkey_ask_1", "passkey_try_1",
               "passkey_done_1", "passkey_add_1"):
        assert fn not in mine
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            call(rv, fn, **arguments(su, fn, p))
    assert call1(rv, "step_up_password_1", s=p.s,
                 output=w.passwords[p.name],
                 next_sha256=os.urandom(32))["status"] == 403
    for sql in ("UPDATE d.operator_session SET step_up_until = 'infinity', "
                "step_up_by = 'totp'",
                "UPDATE d.operator_session SET factor_due = false",
                "UPDATE d.operator SET totp = false, passkeys = 0",
                "DELETE FROM d.operator_factor",
                "UPDATE d.operator_session SET session_sha256 = '\\x00'",
                "SELECT d.session_turn('\\x00', '\\x00')",
                "SELECT d.factor_right('\\x00', '\\x00', 1, 'totp', 1, true)"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            rv.cursor().execute(sql)
    assert call1(rv, "mode_set_1", s=p.s, tenant=w.tenants[0],
                 inbox=w.inboxes[0].inbox, to_mode=4,
                 reason="r")["code"] == "step_up_required"
    # A new session by the password opens nothing.
    s = w.session(p.name)
    assert call1(rv, "session_touch_1", s=s)["code"] == "second_factor_due"
    assert call1(rv, "review_list_1", s=s, tenant=None, inbox=None,
                 states=None, q=None, after_key=None, lim=9,
                 collapse=False)["status"] == 401
    assert call1(rv, "factor_end_1", s=s, factor=p.factor)["status"] == 401
    assert call1(rv, "factor_end_1", s=p.s,
                 factor=p.factor)["code"] == "step_up_required"
    rv.close()


def rows(su, sql, *args):
    with su.cursor() as cur:
        cur.execute(sql, args or None)
        return cur.fetchall()


def arguments(su, fn, p):
    names = rows(su, "SELECT proargnames[1:pronargs] FROM pg_proc "
                 "WHERE proname = %s", fn)[0][0]
    return {n: p.s if n == "s" else None for n in names}


@pytest.mark.parametrize("kind", ["app", "passkey"])
def test_the_first_factor_is_due_in_all_other_sessions(w, p, su, kind):
    """A session that was stolen before there was one does not outlive it."""
    stolen = w.session(p.name)

    def opens(s):
        return call1(w.rv, "session_touch_1", s=s)["code"]
    assert opens(stolen) is None
    if kind == "app":
        assert p.enrol()["status"] == 200
    else:
        w.step_up(p.s, p.name)
        assert p.ask("passkey_add_1", hashes=HASHES, **{
            **KEY, "credential": os.urandom(16)})["status"] == 200
    assert opens(p.s) is None
    assert opens(stolen) == "second_factor_due"
    # the next one leaves sessions alone that had to show the first
    again = w.session(p.name)
    su.cursor().execute("UPDATE d.operator_session SET factor_due = false "
                        "WHERE session_sha256 = %s", (sha256(again),))
    assert p.ask("passkey_add_1", hashes=HASHES, **{
        **KEY, "credential": os.urandom(16)})["status"] == 200
    assert opens(again) is None


def test_no_zone_but_one_writes_a_mark(w, su):
    for column in ("step_up_until", "step_up_by", "factor_due"):
        for right in ("UPDATE", "INSERT"):
            got = {r for r, in rows(su, """SELECT rolname FROM pg_roles
                WHERE rolname LIKE 'p\\_%%' AND rolname <> 'p_owner'
                AND has_column_privilege(oid, 'd.operator_session', %s, %s)
                """, column, right)}
            assert got == ({"p_auth"} if right == "UPDATE" else set())
    for column in ("totp", "passkeys", "factor_failures"):
        assert {r for r, in rows(su, """SELECT rolname FROM pg_roles
            WHERE rolname LIKE 'p\\_%%' AND rolname <> 'p_owner'
            AND has_column_privilege(oid, 'd.operator', %s, 'UPDATE')""",
                                 column)} == {"p_auth"}


def test_the_auth_login_cannot_decide(db, w, x, auth, su):
    """A stolen login of postern-auth, even beside a stolen session."""
    m = x.message()
    assert submit(w.gw, m)["status"] == 202
    mine = {f for f, in rows(su, """SELECT p.proname FROM pg_proc p
        WHERE p.pronamespace = 'api'::regnamespace
        AND has_function_privilege('l_auth', p.oid, 'EXECUTE')""")}
    assert mine == {"ready_1", "factor_state_1", "totp_begin_1",
                    "totp_try_1", "totp_done_1", "recovery_set_1",
                    "recovery_use_1", "passkey_ask_1", "passkey_try_1",
                    "passkey_done_1", "passkey_add_1"}
    for fn in ("decide_1", "session_create_1", "mode_set_1", "review_get_1"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            call(auth, fn, **{n: w.root if n == "s" else None
                              for n in rows(
                su, "SELECT proargnames[1:pronargs] FROM pg_proc "
                    "WHERE proname = %s", fn)[0][0]})
    # And without one, nothing at all.
    for fn in sorted(mine - {"ready_1"}):
        names = rows(su, "SELECT proargnames[1:pronargs] FROM pg_proc "
                     "WHERE proname = %s", fn)[0][0]
        for s in (None, b"", os.urandom(32)):
            assert call1(auth, fn, **{n: s if n == "s" else None
                                      for n in names})["status"] == 401, fn


def test_a_step_counts_once(p, su):
    assert p.enrol()["codes"] is True
    step = p.used  # which may be over by now
    assert p.ask("totp_done_1", factor=p.factor, step=step,
                 hashes=[])["code"] == "code_used"
    assert p.ask("totp_done_1", factor=p.factor, step=step - 1,
                 hashes=[])["code"] == "code_used"
    # Nor one far away, which would lock the app out.
    assert p.ask("totp_done_1", factor=p.factor, step=step + 10 ** 6,
                 hashes=[])["code"] == "code_used"
    assert p.ask("totp_done_1", factor=p.factor, step=step + 1,
                 hashes=[])["status"] == 200


def test_tries_are_bounded(w, p, su):
    assert p.enrol()["status"] == 200
    s = w.session(p.name)
    for _ in range(5):
        assert p.ask("totp_try_1", s=s, confirm=False)["status"] == 200
    got = p.ask("totp_try_1", s=s, confirm=False)
    assert got["status"] == 429 and got["wait"] > 0 and got["sealed"] is None
    # Another session, another kind: the person is what is counted.
    for fn, more in (("totp_try_1", dict(confirm=False)),
                     ("recovery_use_1", dict(code_sha256=HASHES[0]))):
        assert p.ask(fn, s=w.session(p.name), **more)["status"] == 429
    su.cursor().execute("UPDATE d.operator SET factor_locked_until = now() "
                        "WHERE name = %s", (p.name,))
    assert p.ask("totp_try_1", s=s, confirm=False)["status"] == 200
    assert p.ask("totp_try_1", s=s, confirm=False)["wait"] > 30


def test_a_session_that_is_due_dies_young(w, p, su):
    assert p.enrol()["status"] == 200
    s = w.session(p.name)
    assert p.ask("factor_state_1", s=s)["due"] is True
    su.cursor().execute(
        "UPDATE d.operator_session SET created_at = now() - interval "
        "'11 min' WHERE session_sha256 = %s", (sha256(s),))
    assert p.ask("factor_state_1", s=s)["status"] == 401
    assert p.ask("recovery_use_1", s=s,
                 code_sha256=HASHES[0])["status"] == 401


def test_recovery_codes(w, p, su):
    assert p.enrol()["status"] == 200
    s = w.session(p.name)
    assert p.ask("recovery_use_1", s=s,
                 code_sha256=b"x" * 32)["code"] == "code_wrong"
    assert p.ask("recovery_use_1", s=s, code_sha256=HASHES[3])["status"] == 200
    assert call1(w.rv, "session_touch_1", s=s)["step_up_by"] == "recovery"
    again = w.session(p.name)
    assert p.ask("recovery_use_1", s=again,
                 code_sha256=HASHES[3])["code"] == "code_wrong"
    assert p.ask("factor_state_1", s=s)["recovery"] == 9
    other = [bytes([n + 100]) * 32 for n in range(10)]
    for bad in (other[:9], other[:9] + [other[0]], [b"x"] * 10, None):
        assert p.ask("recovery_set_1", s=s, hashes=bad)["status"] == 422
    assert p.ask("recovery_set_1", s=s, hashes=other)["status"] == 200
    assert p.ask("recovery_use_1", s=again,
                 code_sha256=HASHES[4])["code"] == "code_wrong"
    assert p.ask("factor_state_1", s=s)["recovery"] == 10


def by_password(w, p, **more):
    return call1(w.rv, "step_up_password_1", **{
        "s": p.s, "output": w.passwords[p.name], **more})


NONE = dict(mid=None, for_version=None, for_round=None, dig=None)


def by_app(w, p, **more):
    p.ask("totp_try_1", confirm=False)
    return p.ask("totp_done_1", factor=p.factor, step=p.step(), hashes=[],
                 **more)


def by_recovery(w, p, **more):
    return p.ask("recovery_use_1", code_sha256=HASHES[0], **more)


def by_passkey(w, p, **more):
    key = p.ask("passkey_try_1", purpose="s", credential=p.credential)
    return p.ask("passkey_done_1", factor=key["factor_id"],
                 new_count=(key["sign_count"] or 0) + 1, packed=None, **NONE, **more)


@pytest.mark.parametrize("how", [by_password, by_app, by_recovery, by_passkey])
def test_what_raises_a_session_changes_its_secret(w, p, x, su, how):
    """Who had copied the secret gains nothing, in that very commit; what the
    session had begun goes on."""
    if how is not by_password:
        assert p.enrol()["status"] == 200
    if how is by_passkey:
        p.ask("passkey_ask_1", purpose="r", nonce=b"n" * 32, **NONE)
        p.credential = os.urandom(16)
        assert p.ask("passkey_add_1", hashes=HASHES, **dict(
            KEY, credential=p.credential))["status"] == 200
    p.forget(su)
    for purpose in "s", "r":
        assert p.ask("passkey_ask_1", purpose=purpose, nonce=b"n" * 32,
                     **NONE)["status"] == 200
    su.cursor().execute(
        "INSERT INTO d.job (job_id, operator_id, verdict, about, state, "
        "session_sha256) SELECT gen_random_uuid(), operator_id, 'r', '', 1, "
        "session_sha256 FROM d.operator_session WHERE session_sha256 = %s",
        (sha256(p.s),))

    def opens(s):
        return call1(w.rv, "session_touch_1", s=s)
    before, stolen = opens(p.s), bytes(p.s)
    # Not without another one, and not under one that is there already.
    for bad in None, b"short", sha256(p.s), sha256(w.root):
        got = how(w, p, next_sha256=bad)
        assert got["status"] == 422 or how is by_passkey and got[
            "code"] in ("code_used", "validation_error"), got
        assert opens(p.s)["step_up_until"] is None
        if how is by_passkey:
            p.ask("passkey_ask_1", purpose="s", nonce=b"n" * 32, **NONE)
    new = os.urandom(32)
    assert how(w, p, next_sha256=sha256(new))["status"] == 200
    assert opens(stolen)["status"] == 401
    got = opens(new)
    assert got["step_up_until"] is not None
    assert (got["csrf"], got["expires_at"]) == (
        before["csrf"], before["expires_at"])
    assert rows(su, "SELECT count(*) FROM d.factor_challenge WHERE purpose = "
                "'r' AND session_sha256 = %s", sha256(new)) == [(1,)]
    assert rows(su, "SELECT count(*) FROM d.job WHERE session_sha256 = %s",
                sha256(new)) == [(1,)]
    # Twice at once: the second comes too late, and says so.
    p.s[:] = stolen
    assert how(w, p, next_sha256=os.urandom(32))["status"] in (401, 403)


def test_a_new_password_ends_every_copy(w, p):
    other, stolen = w.session(p.name), bytes(p.s)
    new, args = os.urandom(32), dict(
        s=p.s, output=w.passwords[p.name], salt=os.urandom(16),
        params="argon2id m=19456 t=2 p=1", verifier=os.urandom(32))

    def opens(s):
        return call1(w.rv, "session_touch_1", s=s)["status"]
    for bad in None, b"short", sha256(p.s):
        assert call1(w.rv, "password_set_1", next_sha256=bad,
                     **args)["status"] == 422
    assert [opens(s) for s in (stolen, other)] == [200, 200]
    assert call1(w.rv, "password_set_1", next_sha256=sha256(new),
                 **args)["status"] == 200
    assert [opens(s) for s in (new, stolen, other)] == [200, 401, 401]


def test_a_challenge_counts_once(w, p):
    p.w.step_up(p.s, p.name)
    ask = dict(mid=None, for_version=None, for_round=None, dig=None,
               nonce=b"n" * 32)
    assert p.ask("passkey_ask_1", purpose="r", **ask)["status"] == 200
    key = dict(KEY, credential=os.urandom(16))
    assert p.ask("passkey_try_1", purpose="r",
                 credential=key["credential"])["status"] == 200
    assert p.ask("passkey_add_1", hashes=HASHES, **key)["codes"] is True
    assert p.ask("passkey_add_1", hashes=HASHES, **key)["status"] == 409
    assert p.ask("passkey_try_1", purpose="s",
                 credential=key["credential"])["code"] == "code_used"
    assert p.ask("passkey_ask_1", purpose="s", **ask)["status"] == 200
    got = p.ask("passkey_try_1", purpose="s", credential=key["credential"])
    assert bytes(got["nonce"]) == b"n" * 32 and got["sign_count"] == 1
    assert p.ask("passkey_try_1", purpose="s",
                 credential=key["credential"])["code"] == "code_used"
    # A counter that stands still is a copy.
    f = got["factor_id"]
    none = dict(mid=None, for_version=None, for_round=None, dig=None,
                packed=None)
    assert p.ask("passkey_done_1", factor=f, new_count=1, **none)["status"] == 403
    assert p.ask("passkey_done_1", factor=f, new_count=2, **none)["status"] == 200
    assert p.marked() == "passkey"
    # Nobody else's key, and no purpose of another state.
    other = Person(w, p.auth)
    assert other.ask("passkey_ask_1", purpose="s", **ask)["status"] == 200
    assert other.ask("passkey_try_1", purpose="s", credential=key[
        "credential"])["code"] == "code_wrong"
    assert other.ask("passkey_ask_1", purpose="i", **ask)["status"] == 422
    assert p.ask("passkey_done_1", s=other.s, factor=f,
                 new_count=9, **none)["status"] == 403


def test_who_has_none_confirms_by_password_until_then(w, p, su):
    p.w.step_up(p.s, p.name)
    assert p.marked() == "password"
    assert p.enrol()["status"] == 200
    su.cursor().execute("UPDATE d.operator_session SET step_up_by = "
                        "'password' WHERE session_sha256 = %s",
                        (sha256(p.s),))
    assert p.marked() is None  # a password counts no more


def test_a_lost_factor(w, p):
    assert p.enrol()["status"] == 200
    w.step_up(w.root)
    reviewer = Person(w, p.auth, "reviewer")
    w.step_up(reviewer.s, reviewer.name)
    assert call1(w.rv, "factor_reset_1", s=reviewer.s, uid=None,
                 name=p.name)["code"] == "missing_permission"
    assert call1(w.ctl, "factor_reset_1", s=w.root, uid=7,
                 name=p.name)["status"] == 200
    # whoever was signed in by them is not any more
    assert call1(w.rv, "session_touch_1", s=p.s)["status"] == 401
    p.s = w.session(p.name)
    state = p.ask("factor_state_1")
    assert (state["totp"], state["recovery"]) == (False, 0)
    assert call1(w.rv, "session_touch_1", s=p.s)["status"] == 200


def test_recovering_ends_sessions_too(db, w, p):
    assert p.enrol()["status"] == 200
    assert call1(w.rv, "session_touch_1", s=p.s)["status"] == 200
    c = db.connect("l_migrate")
    assert call1(c, "factor_recover_1", uid=0, name=p.name)["status"] == 200
    c.close()
    assert call1(w.rv, "session_touch_1", s=p.s)["status"] == 401


def test_what_loosens_asks(w, p, x, su):
    """Every change that is looser, by a session without a fresh mark."""
    assert p.enrol()["status"] == 200
    p.forget(su)
    where = dict(s=p.s, tenant=x.tenant, inbox=x.inbox)
    more = dict(plan=None, hour=None, day=None, month=None, held=None,
                bytes=None)
    for c, fn, args in (
            (w.rv, "mode_set_1", dict(where, to_mode=3, reason="r")),
            (w.rv, "allow_set_1", dict(where, entry="a@b.example", uses=1,
                                       days=1, reason="r")),
            (w.rv, "pause_1", dict(where, paused=False, reason="r")),
            (w.rv, "limits_set_1", dict(where, uid=None, **dict(
                more, hour=10 ** 8))),
            (w.rv, "inbox_own_1", dict(
                where, uid=None, approvals=None, hold_seconds=None,
                overseer=None, full_key_smtp=None, retry_uncertain=True)),
            (w.rv, "plan_set_1", dict(s=p.s, uid=None, tenant=x.tenant, **dict(
                more, plan="default", day=10 ** 8))),
            (w.rv, "inbox_reset_1", dict(where, uid=None,
                                         claim_sha256=b"c" * 32)),
            (w.rv, "scope_add_1", dict(
                s=p.s, uid=None, operator=1, role="reviewer", tenant=x.tenant,
                inbox=None, risk_cap=1)),
            (w.rv, "operator_add_1", dict(
                s=p.s, uid=None, name="looser", salt=b"s" * 16, params="p",
                verifier=b"v" * 32, role="reviewer", tenant=None,
                inbox=None)),
            (w.rv, "factor_reset_1", dict(s=p.s, uid=None, name="root")),
            (w.rv, "factor_end_1", dict(s=p.s, factor=p.factor)),
            (p.auth, "totp_begin_1", dict(s=p.s, sealed=b"s" * 60)),
            (p.auth, "recovery_set_1", dict(s=p.s, hashes=HASHES)),
            (p.auth, "passkey_add_1", dict(
                KEY, s=p.s, hashes=HASHES, next_sha256=os.urandom(32)))):
        assert call1(c, fn, **args)["code"] == "step_up_required", fn
    assert call1(w.rv, "limits_set_1", uid=None, **where, **dict(
        more, hour=1))["status"] == 200
