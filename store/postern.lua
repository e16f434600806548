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
-- key: a failover to a slower clock reopens nothing.
--
-- The state of a key is one msgpack array of numbers: the last time seen, when
-- the key may go, and a block for each window: its signature, its newest
-- bucket, how many pairs follow, and age and count of each bucket that holds
-- something, the newest first and always there.

local KIND = { m = 1, r = 2, b = 3 }

-- What a window's name says: "m3600/12" counts messages of 3600 seconds in 12
-- buckets; r counts recipients, b bytes. Parsed once each.
local shapes = {}

local function shape_of(name)
  local kind, seconds, buckets = string.match(name, '^([mrb])(%d+)/(%d+)$')
  local s = { kind = KIND[kind], seconds = tonumber(seconds),
    buckets = tonumber(buckets) }
  s.width = s.seconds * 1000 / s.buckets
  s.sig = (s.seconds * 4096 + s.buckets) * 4 + s.kind
  shapes[name] = s
  return s
end

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The windows that a call names: how many, then their names. Second comes where
-- the arguments go on.
local function shapes_of(args)
  local list, n = {}, tonumber(args[1] or 0)
  for i = 1, n do
    list[i] = shapes[args[i + 1]] or shape_of(args[i + 1])
  end
  return list, n + 2
end

-- The state of a key turned to the present time, with a block for each window,
-- these windows with their limits from args[from] on, and in how many
-- milliseconds the key may go; nothing when it knows that already.
local function load(key, clocked, list, args, from)
  local raw = redis.call('GET', key)
  local old = raw and cmsgpack.unpack(raw)
  if not old or not old[2] then
    old = { 0, 0 }
  end
  local floor = math.floor
  local t = math.max(old[1], clocked)
  local state, windows, n, p, expires = { t, 0 }, {}, 2, 3, 0
  for i = 1, #list do
    local s = list[i]
    local sig, buckets = s.sig, s.buckets
    local now, at, total, newest = floor(t / s.width), n, 0, 0
    n = n + 5
    if old[p] ~= sig then -- other windows were asked for before
      p = 3
      while old[p] and old[p] ~= sig do
        p = p + 3 + 2 * old[p + 2]
      end
    end
    if old[p] then
      local older, next_block = now - old[p + 1], p + 3 + 2 * old[p + 2]
      for j = p + 3, next_block - 2, 2 do
        local age, count = old[j] + older, old[j + 1]
        if age > buckets then
          break
        end
        total = total + count
        if age == 0 then
          newest = count
        elseif count > 0 then
          state[n + 1], state[n + 2] = age, count
          n = n + 2
        end
      end
      p = next_block
    end
    state[at + 1], state[at + 2] = sig, now
    state[at + 3], state[at + 4], state[at + 5] = (n - at - 3) / 2, 0, newest
    windows[i] = { at = at, last = n, shape = s, total = total,
      limit = tonumber(args[from + i - 1]), kind = s.kind }
    expires = math.max(expires, (now + buckets + 1) * s.width)
  end
  expires = math.ceil(expires)
  state[2] = expires
  return state, windows, old[2] ~= expires and expires - clocked or nil
end

-- A key may go when what it holds counts nowhere any more. That changes with
-- the bucket, not with each charge.
local function save(key, state, left)
  local value = cmsgpack.pack(state)
  if left then
    redis.call('SET', key, value, 'PX', math.max(1000, left))
  else
    redis.call('SET', key, value, 'KEEPTTL')
  end
end

-- Milliseconds until `need` of what the window counts has left it.
local function wait(state, w, need)
  local freed = 0
  for i = w.last, w.at + 5, -2 do
    freed = freed + state[i]
    if freed >= need then
      local s, now = w.shape, state[w.at + 2]
      local leaves = (now - state[i - 1] + s.buckets + 1) * s.width
      return math.max(1, math.ceil(leaves - state[1]))
    end
  end
  return w.shape.seconds * 1000
end

-- allowed, window, left, milliseconds: the window that refused and how long
-- until it would not, or the tightest after the charge and when something of
-- it comes back. Numbers are whole; windows count from 1, 0 = there is none.
local function measure(state, windows, cost)
  local tight, least = 0, math.huge
  for i = 1, #windows do
    local w = windows[i]
    local room = w.limit - w.total - cost[w.kind]
    if room < 0 then
      return 0, i, math.max(0, w.limit - w.total), wait(state, w, -room)
    end
    local share = room / math.max(1, w.limit)
    if share < least then
      tight, least = i, share
    end
  end
  if tight == 0 then
    return 1, 0, 0, 0
  end
  local w = windows[tight]
  return 1, tight, w.limit - w.total - cost[w.kind],
    w.total > 0 and wait(state, w, 1) or w.shape.seconds * 1000
end

-- FCALL pst_charge N KEY... WINDOWS NAME... {messages recipients bytes
-- LIMIT...}...: for each key, all windows have room and are charged, or none
-- is. Answers five numbers a key, those of measure() and the time.
local function charge(keys, args)
  local list, p = shapes_of(args)
  local answers, clocked = {}, clock()
  for k = 1, #keys do
    local cost = { tonumber(args[p]), tonumber(args[p + 1]),
      tonumber(args[p + 2]) }
    local state, windows, left = load(keys[k], clocked, list, args, p + 3)
    local allowed, window, room, ms = measure(state, windows, cost)
    if allowed == 1 then
      for i = 1, #windows do
        local at = windows[i].at + 5
        state[at] = state[at] + cost[windows[i].kind]
      end
      save(keys[k], state, left)
    end
    local n = 5 * k
    answers[n - 4], answers[n - 3], answers[n - 2] = allowed, window, room
    answers[n - 1], answers[n] = ms, state[1]
    p = p + 3 + #list
  end
  return answers
end

-- FCALL pst_refund 1 KEY WINDOWS NAME... time messages recipients bytes
-- LIMIT...: takes a charge back from the bucket it went to, while that counts.
local function refund(keys, args)
  local list, p = shapes_of(args)
  local at = tonumber(args[p])
  local cost = { tonumber(args[p + 1]), tonumber(args[p + 2]),
    tonumber(args[p + 3]) }
  local state, windows, left = load(keys[1], clock(), list, args, p + 4)
  for _, w in ipairs(windows) do
    local age = state[w.at + 2] - math.floor(at / w.shape.width)
    for i = w.at + 4, w.last, 2 do
      if state[i] == age then
        state[i + 1] = math.max(0, state[i + 1] - cost[w.kind])
      end
    end
  end
  save(keys[1], state, left)
  return 1
end

-- FCALL pst_peek 1 KEY WINDOWS NAME... LIMIT...: what is left of each and when
-- some comes back, two numbers a window. Changes nothing.
local function peek(keys, args)
  local list, p = shapes_of(args)
  local state, windows = load(keys[1], clock(), list, args, p)
  local answer = {}
  for _, w in ipairs(windows) do
    table.insert(answer, math.max(0, w.limit - w.total))
    table.insert(answer, w.total > 0 and wait(state, w, 1) or 0)
  end
  return answer
end

redis.register_function('pst_charge', charge)
redis.register_function('pst_refund', refund)
redis.register_function('pst_peek', peek)
