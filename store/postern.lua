#!lua name=postern
-- SPDX-License-Identifier: ISC
--
-- Counters of how much an inbox may send, several windows in one call.
--
-- A window of `seconds` is a ring of `buckets` equal buckets plus one: the
-- bucket that is now, and the `buckets` before it. All of them count, also
-- the oldest of which only a part lies within the window. So the sum is
-- never below the truth and no rolling window ever holds more than its limit.
--
-- Times are those of Redis, in milliseconds, and never run backwards for a
-- key: a failover to a slower clock reopens nothing. The state of a key is
-- one msgpack string { t = last time seen, w = { signature = { newest bucket,
-- count now, count one before, ... } } }. It holds numbers only.

local KIND = { m = 1, r = 2, b = 3 }

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function load(key)
  local raw = redis.call('GET', key)
  local state = raw and cmsgpack.unpack(raw) or { t = 0, w = {} }
  state.t = math.max(state.t, clock())
  return state
end

local function save(key, state, windows)
  local live, longest = {}, 1000
  for _, w in ipairs(windows) do
    live[w.sig] = state.w[w.sig]
    longest = math.max(longest, w.seconds * 1000 + w.width)
  end
  state.w = live
  redis.call('SET', key, cmsgpack.pack(state), 'PX', math.ceil(longest))
end

-- Four arguments a window: kind m|r|b, seconds, buckets, limit.
local function windows_of(args, from)
  local windows = {}
  for i = from, #args, 4 do
    local seconds, buckets = tonumber(args[i + 1]), tonumber(args[i + 2])
    table.insert(windows, {
      kind = KIND[args[i]], seconds = seconds, buckets = buckets,
      limit = tonumber(args[i + 3]), width = seconds * 1000 / buckets,
      sig = args[i] .. args[i + 1] .. '.' .. args[i + 2],
    })
  end
  return windows
end

-- The ring of a window, turned to the present time.
local function ring(state, w)
  local now = math.floor(state.t / w.width)
  local r = state.w[w.sig] or { now }
  local steps = math.min(now - r[1], w.buckets + 1)
  for _ = 1, steps do
    table.insert(r, 2, 0)
  end
  for i = #r, w.buckets + 3, -1 do
    r[i] = nil
  end
  r[1] = now
  state.w[w.sig] = r
  return r
end

local function sum(r)
  local total = 0
  for i = 2, #r do
    total = total + r[i]
  end
  return total
end

-- Milliseconds until `need` of what the ring counts has left it.
local function wait(state, w, r, need)
  local freed = 0
  for i = #r, 2, -1 do
    freed = freed + r[i]
    if freed >= need then
      local leaves = (r[1] - (i - 2) + w.buckets + 1) * w.width
      return math.max(1, math.ceil(leaves - state.t))
    end
  end
  return math.ceil(w.seconds * 1000)
end

-- {allowed, window, left, milliseconds, time of the charge}: the window that
-- refused and how long until it would not, or the tightest after the charge
-- and when something of it comes back. Numbers are whole; windows count
-- from 1, 0 = there is none.
local function measure(state, windows, cost)
  local tight, tight_left, tight_ms = 0, math.huge, 0
  for i, w in ipairs(windows) do
    local r = ring(state, w)
    local after = sum(r) + cost[w.kind]
    if after > w.limit then
      return { 0, i, math.max(0, w.limit - sum(r)),
        wait(state, w, r, after - w.limit), state.t }
    end
    local share = (w.limit - after) / math.max(1, w.limit)
    if share < tight_left then
      tight, tight_left = i, share
      tight_ms = sum(r) > 0 and wait(state, w, r, 1) or
        math.ceil(w.seconds * 1000)
    end
  end
  local left = 0
  if tight > 0 then
    local w = windows[tight]
    left = w.limit - sum(state.w[w.sig]) - cost[w.kind]
  end
  return { 1, tight, left, tight_ms, state.t }
end

-- FCALL pst_charge 1 KEY messages recipients bytes {kind seconds buckets
-- limit}...: all windows have room and are charged, or none is.
local function charge(keys, args)
  local cost = { tonumber(args[1]), tonumber(args[2]), tonumber(args[3]) }
  local windows = windows_of(args, 4)
  local state = load(keys[1])
  local answer = measure(state, windows, cost)
  if answer[1] == 1 then
    for _, w in ipairs(windows) do
      local r = state.w[w.sig]
      r[2] = (r[2] or 0) + cost[w.kind]
    end
    save(keys[1], state, windows)
  end
  return answer
end

-- FCALL pst_refund 1 KEY time messages recipients bytes {window}...: takes a
-- charge back from the bucket it went to, while that still counts.
local function refund(keys, args)
  local at = tonumber(args[1])
  local cost = { tonumber(args[2]), tonumber(args[3]), tonumber(args[4]) }
  local windows = windows_of(args, 5)
  local state = load(keys[1])
  for _, w in ipairs(windows) do
    local r = ring(state, w)
    local i = r[1] - math.floor(at / w.width) + 2
    if i >= 2 and r[i] then
      r[i] = math.max(0, r[i] - cost[w.kind])
    end
  end
  save(keys[1], state, windows)
  return 1
end

-- FCALL pst_peek 1 KEY {window}...: what is left of each and when some comes
-- back, two numbers a window. Changes nothing.
local function peek(keys, args)
  local windows = windows_of(args, 1)
  local state = load(keys[1])
  local answer = {}
  for _, w in ipairs(windows) do
    local r = ring(state, w)
    local used = sum(r)
    table.insert(answer, math.max(0, w.limit - used))
    table.insert(answer, used > 0 and wait(state, w, r, 1) or 0)
  end
  return answer
end

redis.register_function('pst_charge', charge)
redis.register_function('pst_refund', refund)
redis.register_function('pst_peek', peek)
