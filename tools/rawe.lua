-- SPDX-License-Identifier: BSD-3-Clause
--
-- Wireshark dissector of rawe's frames (doc/protocol.md). Plain frames are recognized by their
-- EtherType, batches by their addresses. Batches look like TCP, so TCP over IPv4 comes here first,
-- and is passed on if it is not ours. Datagrams (btl_rawe_kind udp) are recognized by their content.
--
--   tshark -X lua_script:rawe.lua -r job.pcap -Y rawe.resent
--   cp rawe.lua ~/.local/lib/wireshark/plugins/        (for Wireshark; Help > About > Folders)

local rawe = Proto("rawe", "rawe: MPI in raw Ethernet frames")

local HEADER_BYTES = 24
local GROUP_HEADER_BYTES = 24
local CHECKSUM_BYTES = 4
local FRAGMENT_ALIGN = 4
local BATCH_HEADER_BYTES = 60
local VERSION = 1 -- the low four bits of wire version 17
local EXPERIMENT = 0xFE285257 -- TCP option that marks rawe's batches
local IPPROTO_TCP = 6
-- IPv4 addresses of batches.
local SOURCE, DESTINATION, GROUP = "255.255.255.255", "0.0.0.2", "224.0.0.254"

local DATA, BULK, ACK, PROBE, CONNECT, CLOSE, PING, PONG, SLICE = 1, 2, 3, 4, 5, 6, 7, 8, 9
local types = {
    [DATA] = "DATA", [BULK] = "BULK", [ACK] = "ACK", [PROBE] = "PROBE",
    [CONNECT] = "CONNECT", [CLOSE] = "CLOSE", [PING] = "PING", [PONG] = "PONG",
    [SLICE] = "SLICE",
}
-- Frames to a group's members, and control messages over their connections.
local GROUP_DATA = 10
local group_types = { [GROUP_DATA] = "group DATA" }
local controls = { [1] = "ACK", [2] = "NACK", [3] = "STATUS", [4] = "REPAIR", [5] = "WAIT" }
local CONTROL_HEADER_BYTES = 16
local MESSAGE, PART, PUT, VALIDATION, BUNDLE, GET, ATOMIC, REPLY, CONTROL = 1, 2, 3, 4, 5, 6, 7, 8, 9
local kinds = {
    [MESSAGE] = "message", [PART] = "part", [PUT] = "put", [VALIDATION] = "validation",
    [BUNDLE] = "bundle", [GET] = "get", [ATOMIC] = "atomic", [REPLY] = "reply",
    [CONTROL] = "control",
}
local fragment_bytes = {
    [MESSAGE] = 4, [PART] = 16, [PUT] = 24, [VALIDATION] = 16, [BUNDLE] = 16,
    [GET] = 24, [ATOMIC] = 24, [REPLY] = 24, [CONTROL] = 24,
}
local records = { [PUT] = true, [GET] = true, [ATOMIC] = true, [REPLY] = true, [CONTROL] = true }
local lanes = { [0] = "express", [1] = "bulk" }
local PROBE_ANSWER_FLAG, GROUP_SHARED_FLAG = 0x02, 0x20
local GROUP_BATCH_FLAGS = 0x03

local all_types = {}
for _, names in ipairs({ types, group_types }) do
    for kind, name in pairs(names) do
        all_types[kind] = name
    end
end

local f = rawe.fields
f.version = ProtoField.uint8("rawe.version", "Version", base.DEC, nil, 0xF0)
f.type = ProtoField.uint8("rawe.type", "Type", base.DEC, all_types, 0x0F)
f.flags = ProtoField.uint8("rawe.flags", "Flags", base.HEX)
f.ack_now = ProtoField.bool("rawe.ack_now", "Acknowledge at once", 8, nil, 0x01)
f.given_up = ProtoField.bool("rawe.given_up", "Receiver was given up", 8, nil, 0x01)
f.probe_answer = ProtoField.bool("rawe.probe_answer", "Answers a probe", 8, nil, 0x02)
f.reply = ProtoField.bool("rawe.reply", "Reply", 8, nil, 0x04)
f.resent = ProtoField.bool("rawe.resent", "Sent before", 8, nil, 0x10)
f.duplicate = ProtoField.bool("rawe.duplicate", "A duplicate came", 8, nil, 0x20)
f.serviced = ProtoField.bool("rawe.serviced", "Process makes progress", 8, nil, 0x40)
f.finalizing = ProtoField.bool("rawe.finalizing", "Process finalizes", 8, nil, 0x40)
f.more = ProtoField.bool("rawe.more", "Sender has more", 8, nil, 0x40)
f.refused = ProtoField.bool("rawe.refused", "No memory", 8, nil, 0x10)
f.port = ProtoField.uint16("rawe.port", "Receiver's port", base.HEX)
f.key = ProtoField.uint32("rawe.key", "Receiver's key", base.HEX)
f.conn = ProtoField.uint32("rawe.conn", "Connection id (the receiver's)", base.HEX)
f.conn_index = ProtoField.uint32("rawe.conn.index", "Index", base.DEC, nil, 0x000FFFFF)
f.conn_generation = ProtoField.uint32(
    "rawe.conn.generation", "Generation", base.DEC, nil, 0xFFF00000)
f.seq = ProtoField.uint32("rawe.seq", "Sequence number", base.DEC)
f.ack = ProtoField.uint32("rawe.ack", "Acknowledgement: next number expected", base.DEC)
f.len = ProtoField.uint16("rawe.len", "Payload bytes", base.DEC)
f.credit = ProtoField.uint16("rawe.credit", "Credit in frames", base.DEC)
f.sack = ProtoField.bytes("rawe.sack", "SACK bitmap")
f.checksum = ProtoField.uint32("rawe.checksum", "CRC32C", base.HEX)
f.fragment = ProtoField.uint8("rawe.fragment", "Fragment", base.DEC, kinds)
f.fragment_tag = ProtoField.uint8("rawe.fragment.tag", "Tag", base.DEC)
f.fragment_len = ProtoField.uint16("rawe.fragment.len", "Data bytes", base.DEC)
f.message = ProtoField.uint32("rawe.part.message", "Message number", base.DEC)
f.part_at = ProtoField.uint32("rawe.part.at", "Offset in the message", base.DEC)
f.part_of = ProtoField.uint32("rawe.part.of", "Length of the message", base.DEC)
f.handle = ProtoField.uint32("rawe.put.handle", "Index of the handle or operation", base.DEC)
f.handle_key = ProtoField.uint64("rawe.put.key", "Key of the handle or operation", base.HEX)
f.put_at = ProtoField.uint64("rawe.put.at", "Offset in the handle or result", base.DEC)
f.data = ProtoField.bytes("rawe.data", "Data")
f.jobid = ProtoField.uint32("rawe.connect.job", "Job", base.HEX)
f.vpid = ProtoField.uint32("rawe.connect.rank", "Rank", base.DEC)
f.my_conn = ProtoField.uint32("rawe.connect.conn", "Connection id (the sender's)", base.HEX)
f.my_key = ProtoField.uint32("rawe.connect.key", "Sender's key", base.HEX)
f.my_port = ProtoField.uint16("rawe.connect.port", "Sender's port", base.HEX)
f.lane = ProtoField.uint8("rawe.connect.lane", "Lane", base.DEC, lanes)
f.choice = ProtoField.uint8("rawe.connect.choice", "Interface (CONNECT)")
f.payload_max = ProtoField.uint32("rawe.connect.payload_max", "Largest frame payload", base.DEC)
f.incarnation = ProtoField.uint64("rawe.connect.incarnation", "Incarnation", base.DEC)
f.ping_key = ProtoField.uint32("rawe.ping.key", "Key to answer to", base.HEX)
f.ping_port = ProtoField.uint16("rawe.ping.port", "Port to answer to", base.HEX)
f.token = ProtoField.uint64("rawe.ping.token", "Token", base.HEX)
f.batch_at = ProtoField.uint32("rawe.batch.at", "Offset in the batch's data", base.DEC)
f.batch_segment = ProtoField.uint16("rawe.batch.segment", "Data of each frame", base.DEC)
f.batch_seq = ProtoField.uint32("rawe.batch.seq", "Sequence number of the first frame", base.DEC)
f.batch_frames = ProtoField.uint8("rawe.batch.frames", "Frames of the batch", base.DEC)
f.batch_here = ProtoField.uint32("rawe.batch.here", "Frames in this packet", base.DEC)
f.group_ask = ProtoField.bool("rawe.group.ask", "Acknowledge by the tree", 8, nil, 0x01)
f.group_last = ProtoField.bool("rawe.group.last", "Last message of the group", 8, nil, 0x02)
f.group_shared = ProtoField.bool("rawe.group.shared", "Several messages", 8, nil, 0x20)
f.group_member = ProtoField.uint16("rawe.group.member", "Sending member", base.DEC)
f.group_id = ProtoField.uint64("rawe.group.id", "Group id", base.HEX)
f.group_of = ProtoField.uint32("rawe.group.of", "Length of the message", base.DEC)
f.group_message = ProtoField.uint16("rawe.group.message", "Length of a message", base.DEC)
f.control = ProtoField.uint8("rawe.control", "Control message", base.DEC, controls)
f.control_root = ProtoField.uint16("rawe.control.root", "Root", base.DEC)
f.control_seq = ProtoField.uint32("rawe.control.seq", "Sequence number", base.DEC)

local malformed = ProtoExpert.new(
    "rawe.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
rawe.experts = { malformed }

rawe.prefs.ethertype = Pref.uint("EtherType", 0x88B5, "What btl_rawe_ethertype says")

local function add_type_and_flags(range, tree)
    tree:add(f.version, range(0, 1))
    tree:add(f.type, range(0, 1))
    local kind = range(0, 1):bitfield(4, 4)
    local process = (kind == PING or kind == PONG) and f.serviced
        or kind == BULK and f.more or f.finalizing
    local again = kind == ACK and f.refused or f.resent
    local first = (kind == CLOSE or kind == PONG) and f.given_up or f.ack_now
    local flags = tree:add(f.flags, range(1, 1))
    for _, flag in ipairs({ first, f.probe_answer, f.reply, again, f.duplicate, process }) do
        flags:add(flag, range(1, 1))
    end
end

local function add_header(tvb, tree)
    add_type_and_flags(tvb(0, 2), tree)
    tree:add(f.port, tvb(2, 2))
    tree:add(f.key, tvb(4, 4))
    local conn = tree:add(f.conn, tvb(8, 4))
    conn:add(f.conn_index, tvb(8, 4))
    conn:add(f.conn_generation, tvb(8, 4))
    tree:add(f.seq, tvb(12, 4))
    tree:add(f.ack, tvb(16, 4))
    tree:add(f.len, tvb(20, 2))
    tree:add(f.credit, tvb(22, 2))
end

-- Dissects a fragment whose header is present. Returns a short description.
local function add_fragment(tvb, tree, kind, header_bytes, data_bytes)
    local item = tree:add(f.fragment, tvb(0, 1))
    item:set_len(header_bytes + data_bytes)
    item:add(f.fragment_tag, tvb(1, 1))
    item:add(f.fragment_len, tvb(2, 2))
    if header_bytes == fragment_bytes[PART] then
        item:add(f.message, tvb(4, 4))
        item:add(f.part_at, tvb(8, 4))
        item:add(f.part_of, tvb(12, 4))
    elseif records[kind] then
        item:add(f.handle, tvb(4, 4))
        item:add(f.handle_key, tvb(8, 8))
        item:add(f.put_at, tvb(16, 8))
    end
    if kind == CONTROL and data_bytes >= CONTROL_HEADER_BYTES then
        item:add(f.control, tvb(header_bytes, 1))
        item:add(f.control_root, tvb(header_bytes + 2, 2))
        item:add(f.control_seq, tvb(header_bytes + 4, 4))
    end
    if data_bytes > 0 then
        item:add(f.data, tvb(header_bytes, data_bytes))
    end
    return string.format(" %s of %d", kinds[kind], data_bytes)
end

local function add_fragments(tvb, tree)
    local at, words = 0, ""
    while at < tvb:len() do
        local left = tvb:len() - at
        local kind = tvb(at, 1):uint()
        local header_bytes = fragment_bytes[kind]
        if header_bytes == nil or left < header_bytes then
            tree:add_proto_expert_info(malformed, "Unknown or shortened fragment")
            return words
        end
        local data_bytes = tvb(at + 2, 2):uint()
        if data_bytes > left - header_bytes then
            tree:add_proto_expert_info(malformed, "Fragment longer than its frame")
            return words
        end
        words = words .. add_fragment(tvb(at):tvb(), tree, kind, header_bytes, data_bytes)
        at = at + math.ceil((header_bytes + data_bytes) / FRAGMENT_ALIGN) * FRAGMENT_ALIGN
    end
    return words
end

local function add_connect(tvb, tree)
    if tvb:len() < 32 then
        tree:add_proto_expert_info(malformed, "Identity cut short")
        return ""
    end
    tree:add(f.jobid, tvb(0, 4))
    tree:add(f.vpid, tvb(4, 4))
    tree:add(f.my_conn, tvb(8, 4))
    tree:add(f.my_key, tvb(12, 4))
    tree:add(f.my_port, tvb(16, 2))
    tree:add(f.lane, tvb(18, 1))
    tree:add(f.choice, tvb(19, 1))
    tree:add(f.payload_max, tvb(20, 4))
    tree:add(f.incarnation, tvb(24, 8))
    local lane = lanes[tvb(18, 1):uint()] or "?"
    return string.format(" from rank %d, %s lane", tvb(4, 4):uint(), lane)
end

local function add_ping(tvb, tree)
    if tvb:len() < 16 then
        tree:add_proto_expert_info(malformed, "Cut short")
        return ""
    end
    tree:add(f.ping_key, tvb(0, 4))
    tree:add(f.ping_port, tvb(4, 2))
    tree:add(f.token, tvb(8, 8))
    return ""
end

local function add_payload(tvb, tree, kind)
    if kind == DATA or kind == BULK then
        return add_fragments(tvb, tree)
    elseif kind == ACK then
        tree:add(f.sack, tvb())
        return " SACK"
    elseif kind == PROBE or kind == CONNECT then
        return add_connect(tvb, tree)
    elseif kind == PING or kind == PONG then
        return add_ping(tvb, tree)
    end
    return ""
end

local function add_group_header(tvb, tree)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.type, tvb(0, 1))
    local flags = tree:add(f.flags, tvb(1, 1))
    for _, flag in ipairs({ f.group_ask, f.group_last, f.group_shared }) do
        flags:add(flag, tvb(1, 1))
    end
    tree:add(f.group_member, tvb(2, 2))
    tree:add(f.group_id, tvb(4, 8))
    tree:add(f.seq, tvb(12, 4))
    tree:add(f.group_of, tvb(16, 4))
    tree:add(f.len, tvb(20, 2))
end

-- Dissects messages that share a frame. Returns whether they fill it.
local function add_shared(tvb, tree)
    local at = 0
    while at + 2 <= tvb:len() and at + 2 + tvb(at, 2):uint() <= tvb:len() do
        local len = tvb(at, 2):uint()
        tree:add(f.group_message, tvb(at, 2))
        if len > 0 then
            tree:add(f.data, tvb(at + 2, len))
        end
        at = at + 2 + len
    end
    return at == tvb:len()
end

-- Dissects a group's frame whose first byte is valid. Returns its length and a description.
local function dissect_group(tvb, tree, kind)
    local words = group_types[kind]
    if tvb:len() < GROUP_HEADER_BYTES + CHECKSUM_BYTES then
        tree:add_proto_expert_info(malformed, "Shorter than a header")
        return 0, words .. " malformed"
    end
    add_group_header(tvb, tree)
    words = words .. string.format(" member %d seq=%d", tvb(2, 2):uint(), tvb(12, 4):uint())
    local of, len = tvb(16, 4):uint(), tvb(20, 2):uint()
    local shared = bit.band(tvb(1, 1):uint(), GROUP_SHARED_FLAG) ~= 0
    local fits = shared and len == of or not shared and len <= of and (len ~= 0) == (of ~= 0)
    if len > tvb:len() - GROUP_HEADER_BYTES - CHECKSUM_BYTES or not fits
        or shared and not add_shared(tvb(GROUP_HEADER_BYTES, len):tvb(), tree) then
        tree:add_proto_expert_info(malformed, "Lengths that do not add up")
        return 0, words .. " malformed"
    end
    if len > 0 and not shared then
        tree:add(f.data, tvb(GROUP_HEADER_BYTES, len))
    end
    tree:add(f.checksum, tvb(GROUP_HEADER_BYTES + len, CHECKSUM_BYTES))
    return GROUP_HEADER_BYTES + len + CHECKSUM_BYTES, words
end

-- Dissects a connection's frame whose first byte is valid. Returns its length and a description.
local function dissect_connection(tvb, tree, kind)
    add_header(tvb, tree)
    local flags, len = tvb(1, 1):uint(), tvb(20, 2):uint()
    local words = types[kind]
    if kind == DATA or kind == BULK or kind == PROBE or bit.band(flags, PROBE_ANSWER_FLAG) ~= 0 then
        words = words .. string.format(" seq=%d", tvb(12, 4):uint())
    end
    if kind ~= PING and kind ~= PONG then
        words = words .. string.format(" ack=%d", tvb(16, 4):uint())
    end
    if len > tvb:len() - HEADER_BYTES then
        tree:add_proto_expert_info(malformed, "Payload longer than the frame")
        return 0, words .. " malformed"
    end
    if len > 0 then
        words = words .. add_payload(tvb(HEADER_BYTES, len):tvb(), tree, kind)
    end
    return HEADER_BYTES + len, words
end

-- Dissects a frame from its header on. Returns its length (0: malformed) and a description.
local function dissect_frame(tvb, tree)
    if tvb:len() < HEADER_BYTES then
        tree:add_proto_expert_info(malformed, "Shorter than a header")
        return 0, "malformed"
    end
    local kind = tvb(0, 1):bitfield(4, 4)
    if tvb(0, 1):bitfield(0, 4) ~= VERSION or all_types[kind] == nil then
        tree:add(f.version, tvb(0, 1))
        tree:add_proto_expert_info(malformed, "Unknown version or type")
        return 0, "malformed"
    end
    local dissect = group_types[kind] and dissect_group or dissect_connection
    local used, words = dissect(tvb, tree, kind)
    local sealed = kind ~= PING and kind ~= PONG and not group_types[kind]
    if used > 0 and sealed and tvb:len() >= used + CHECKSUM_BYTES then
        tree:add(f.checksum, tvb(used, CHECKSUM_BYTES))
        used = used + CHECKSUM_BYTES
    end
    return used, words
end

function rawe.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "rawe"
    local item = tree:add(rawe, tvb())
    local used, words = dissect_frame(tvb, item)
    if used > 0 then
        item:set_len(used)
    end
    pinfo.cols.info = words
    return tvb:len()
end

-- Dissects a batch header's description of its data. Returns a short description.
local function add_batch_fragment(tvb, tree, kind, at, data_bytes)
    local item = tree:add(f.fragment, tvb(26, 1))
    item:add(f.fragment_tag, tvb(27, 1))
    item:add(f.fragment_len, tvb(60), data_bytes):set_generated()
    local offset = tvb(52, 6):uint64() + at
    if records[kind] then
        item:add(f.handle, tvb(40, 4))
        item:add(f.handle_key, tvb(44, 8))
        item:add(f.put_at, tvb(52, 6), offset)
    else
        item:add(f.message, tvb(40, 4))
        item:add(f.part_at, tvb(52, 6), offset:tonumber())
        item:add(f.part_of, tvb(44, 4))
    end
    item:add(f.data, tvb(60))
    return string.format(" %s of %d", kinds[kind], data_bytes)
end

-- Dissects the frames of a batch in a packet. Returns a description.
local function add_batch(tvb, tree, words)
    local kind, at, segment = tvb(26, 1):uint(), tvb(4, 4):uint(), tvb(14, 2):uint()
    local data_bytes = tvb:len() - BATCH_HEADER_BYTES
    if kind == MESSAGE or kind == GET or kind == ATOMIC or fragment_bytes[kind] == nil then
        tree:add_proto_expert_info(malformed, "Unknown kind of fragment")
        return words .. " malformed"
    end
    tree:add(f.batch_at, tvb(4, 4))
    tree:add(f.batch_segment, tvb(14, 2))
    tree:add(f.batch_seq, tvb(36, 4))
    tree:add(f.batch_frames, tvb(58, 1))
    if segment == 0 or data_bytes == 0 or at % segment ~= 0 then
        tree:add_proto_expert_info(malformed, "Lengths that do not add up")
        return words .. " malformed"
    end
    local offset = tvb(52, 6):uint64():tonumber() + at
    if not records[kind] and offset + data_bytes > tvb(44, 4):uint() then
        tree:add_proto_expert_info(malformed, "Beyond the end of the message")
        return words .. " malformed"
    end
    local before, here = at / segment, math.ceil(data_bytes / segment)
    local frames = tvb(58, 1):uint()
    if before + here > frames or (before + here < frames and data_bytes % segment ~= 0) then
        tree:add_proto_expert_info(malformed, "Lengths that do not add up")
        return words .. " malformed"
    end
    local seq = (tvb(36, 4):uint() + before) % 2 ^ 32
    tree:add(f.seq, tvb(36, 4), seq):set_generated()
    tree:add(f.batch_here, tvb(60), here):set_generated()
    words = words .. string.format(" seq=%.0f frames %d to %d of %d", seq, before + 1,
                                   before + here, frames)
    return words .. add_batch_fragment(tvb, tree, kind, at, data_bytes)
end

-- Dissects the frames of a group's batch in a packet. Returns a description.
local function add_group_batch(tvb, tree)
    local at, segment, frames = tvb(4, 4):uint(), tvb(14, 2):uint(), tvb(48, 1):uint()
    local data_bytes = tvb:len() - BATCH_HEADER_BYTES
    local words = string.format("%s member %d", group_types[GROUP_DATA], tvb(0, 2):uint())
    tree:add(f.group_member, tvb(0, 2))
    tree:add(f.batch_at, tvb(4, 4))
    tree:add(f.batch_segment, tvb(14, 2))
    tree:add(f.group_ask, tvb(25, 1))
    tree:add(f.group_last, tvb(25, 1))
    tree:add(f.group_id, tvb(32, 8))
    tree:add(f.batch_seq, tvb(40, 4))
    tree:add(f.group_of, tvb(44, 4))
    tree:add(f.batch_frames, tvb(48, 1))
    local before, here = at / segment, math.ceil(data_bytes / segment)
    if tvb(25, 1):uint() > GROUP_BATCH_FLAGS then
        tree:add_proto_expert_info(malformed, "Unknown flags")
        return words .. " malformed"
    end
    if segment == 0 or data_bytes == 0 or data_bytes > tvb(44, 4):uint() or at % segment ~= 0
        or before + here > frames or before + here < frames and data_bytes % segment ~= 0 then
        tree:add_proto_expert_info(malformed, "Lengths that do not add up")
        return words .. " malformed"
    end
    local seq = (tvb(40, 4):uint() + before) % 2 ^ 32
    tree:add(f.seq, tvb(40, 4), seq):set_generated()
    tree:add(f.batch_here, tvb(BATCH_HEADER_BYTES), here):set_generated()
    tree:add(f.data, tvb(BATCH_HEADER_BYTES))
    return words .. string.format(" seq=%.0f frames %d to %d of %d", seq, before + 1,
                                  before + here, frames)
end

-- Dissects a batch's packet from its header on, which is a TCP header. Returns a description.
local function dissect_batch(tvb, tree)
    if tvb:len() < BATCH_HEADER_BYTES then
        tree:add_proto_expert_info(malformed, "Shorter than a header")
        return "malformed"
    end
    local kind = tvb(24, 1):bitfield(4, 4)
    if tvb(20, 4):uint() ~= EXPERIMENT or tvb(24, 1):bitfield(0, 4) ~= VERSION
        or types[kind] == nil and kind ~= GROUP_DATA then
        tree:add_proto_expert_info(malformed, "Unknown version or type")
        return "malformed"
    end
    if kind == GROUP_DATA then
        return add_group_batch(tvb, tree)
    end
    add_type_and_flags(tvb(24, 2), tree)
    tree:add(f.port, tvb(2, 2))
    tree:add(f.key, tvb(28, 4))
    local id = tvb(32, 2):uint() * 2 ^ 16 + tvb(0, 2):uint()
    local conn = tree:add(f.conn, tvb(32, 2), id)
    conn:add(f.conn_index, tvb(32, 2), id)
    conn:add(f.conn_generation, tvb(32, 2), id)
    tree:add(f.ack, tvb(8, 4))
    tree:add(f.credit, tvb(34, 2))
    local words = types[kind]
    if kind == BULK then
        return add_batch(tvb, tree, words)
    end
    tree:add(f.seq, tvb(36, 4))
    if tvb:len() > BATCH_HEADER_BYTES then
        words = words .. add_payload(tvb(BATCH_HEADER_BYTES):tvb(), tree, kind)
    end
    return words
end

local protocols = DissectorTable.get("ip.proto")
local tcp = protocols:get_dissector(IPPROTO_TCP)
local batches = Proto("rawe_batch", "rawe: batches")

function batches.dissector(tvb, pinfo, tree)
    local to = tostring(pinfo.net_dst)
    if tostring(pinfo.net_src) ~= SOURCE or to ~= DESTINATION and to ~= GROUP then
        return tcp:call(tvb, pinfo, tree)
    end
    pinfo.cols.protocol = "rawe"
    pinfo.cols.info = dissect_batch(tvb, tree:add(rawe, tvb()))
    return tvb:len()
end

local UDP_BATCH = 0xF -- type of the segments of a batch in datagrams

-- Returns the length of the frame or segment that begins a datagram, which is several if the kernel
-- had not cut it yet or had merged it; 0: not ours.
local function datagram_bytes(tvb, port)
    if tvb:len() < HEADER_BYTES or tvb(0, 1):bitfield(0, 4) ~= VERSION then
        return 0
    end
    local kind = tvb(0, 1):bitfield(4, 4)
    if kind == UDP_BATCH then
        local ours = tvb:len() >= BATCH_HEADER_BYTES and tvb(1, 1):uint() == 0
            and tvb(20, 4):uint() == EXPERIMENT
        return ours and math.min(tvb:len(), BATCH_HEADER_BYTES + tvb(14, 2):uint()) or 0
    end
    -- A PROBE is sent to the responder, too, whose port is the next one.
    local to = tvb(2, 2):uint()
    local ours = types[kind] ~= nil and (to == port or kind == PROBE and to + 1 == port)
    local len = HEADER_BYTES + tvb(20, 2):uint()
    return ours and len <= tvb:len() and len or 0
end

-- Dissects a segment of a batch, whose first four bytes are other than in a packet.
local function dissect_segment(tvb, tree, port)
    local bytes = tvb:bytes()
    for i = 0, 1 do
        bytes:set_index(i, bytes:get_index(i + 2))
    end
    bytes:set_index(2, math.floor(port / 256))
    bytes:set_index(3, port % 256)
    return dissect_batch(bytes:tvb("rawe batch"), tree)
end

local function dissect_datagram(tvb, pinfo, tree)
    local at, words = 0, {}
    local bytes = datagram_bytes(tvb, pinfo.dst_port)
    while bytes > 0 do
        local part = tvb(at, bytes):tvb()
        local item = tree:add(rawe, part())
        if part(0, 1):bitfield(4, 4) == UDP_BATCH then
            words[#words + 1] = dissect_segment(part, item, pinfo.dst_port)
        else
            local _, text = dissect_frame(part, item)
            words[#words + 1] = text
        end
        at = at + bytes
        bytes = at < tvb:len() and datagram_bytes(tvb(at):tvb(), pinfo.dst_port) or 0
    end
    if at == 0 then
        return false
    end
    pinfo.cols.protocol = "rawe"
    pinfo.cols.info = table.concat(words, "; ")
    return true
end

rawe:register_heuristic("udp", dissect_datagram)

local ethertypes = DissectorTable.get("ethertype")
local registered = rawe.prefs.ethertype

function rawe.prefs_changed()
    if registered ~= rawe.prefs.ethertype then
        ethertypes:remove(registered, rawe)
        registered = rawe.prefs.ethertype
        ethertypes:add(registered, rawe)
    end
end

ethertypes:add(registered, rawe)
protocols:set(IPPROTO_TCP, batches)
