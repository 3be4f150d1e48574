// The public protocol's readers, as a JavaScript peer has them, written from its
// description: exact names, the last of a duplicate name wins, optional fields
// dropped when malformed. One base64 document a line comes in with its kind, one
// JSON object a line goes out.
import { createInterface } from "node:readline";

const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const nullable = (v) => v === null || typeof v === "string";
const STATES = ["approved", "approved_for_session", "approved_for_serving_session", "denied", "denied_with_reason"];
const KINDS = ["bash", "mcp", "tool", "path", "external_directory", "bash_external_directory", "skill", "skill_read", "forwarded"];

function decision(v, depth = 0) {
  if (!isObject(v)) return null;
  const str = (...names) => names.every((n) => typeof v[n] === "string");
  const nul = (...names) => names.every((n) => nullable(v[n]));
  switch (v.kind) {
    case "user": return ["dialog", "select"].includes(v.via) ? { kind: v.kind, via: v.via } : null;
    case "authorizer":
      return str("name") && ["allow", "deny"].includes(v.verdict) && nul("reason") ? { kind: v.kind, name: v.name, verdict: v.verdict, reason: v.reason } : null;
    case "rule": return str("surface") && nul("pattern", "origin") ? { kind: v.kind, surface: v.surface, pattern: v.pattern, origin: v.origin } : null;
    case "session_approval": return str("surface") && nul("pattern") ? { kind: v.kind, surface: v.surface, pattern: v.pattern } : null;
    case "yolo": return nul("pattern") ? { kind: v.kind, pattern: v.pattern } : null;
    case "infrastructure_read": return { kind: v.kind };
    case "unavailable": case "gate_error": return str("reason") ? { kind: v.kind, reason: v.reason } : null;
    case "forwarded": {
      if (depth >= 4 || !nul("responderSessionId")) return null;
      if (v.decision === null) return { kind: v.kind, responderSessionId: v.responderSessionId, decision: null };
      const inner = decision(v.decision, depth + 1);
      return inner && { kind: v.kind, responderSessionId: v.responderSessionId, decision: inner };
    }
  }
  return null;
}

function payload(v) {
  if (!isObject(v) || !KINDS.includes(v.kind) || !isObject(v.request) || !Array.isArray(v.evidence) || !Array.isArray(v.annotations)) return null;
  const r = v.request, q = r.requester;
  if (!isObject(q) || !nullable(q.agentName) || typeof q.forwarded !== "boolean" || !nullable(q.sessionId)) return null;
  if (typeof r.surface !== "string" || typeof r.value !== "string") return null;
  if (![r.toolName, r.invokedToolName, r.matchedPattern, r.executedUnit, r.commandContext].every(nullable)) return null;
  if (r.commandContext !== null && !["command_substitution", "process_substitution", "subshell"].includes(r.commandContext)) return null;
  if (!v.evidence.every((e) => isObject(e) && typeof e.label === "string" && typeof e.text === "string" && nullable(e.detail))) return null;
  if (!v.annotations.every((a) => isObject(a) && typeof a.source === "string" && typeof a.text === "string")) return null;
  return { kind: v.kind, surface: r.surface, value: r.value, toolName: r.toolName, evidence: v.evidence.map((e) => [e.label, e.text, e.detail]) };
}

function grants(v) {
  if (!isObject(v) || !Array.isArray(v.grants) || v.grants.length === 0) return null;
  if (!v.grants.every((g) => isObject(g) && typeof g.surface === "string" && g.surface !== "" && typeof g.pattern === "string")) return null;
  return v.grants.map((g) => [g.surface, g.pattern]);
}

function intent(v) {
  if (!isObject(v) || typeof v.surface !== "string" || !Array.isArray(v.matchValues) || !v.matchValues.every((x) => typeof x === "string")) return null;
  if (!nullable(v.boundaryValue) || typeof v.requesterCwd !== "string") return null;
  if (!isObject(v.principal) || typeof v.principal.sessionId !== "string" || typeof v.principal.agentName !== "string") return null;
  return { surface: v.surface, matchValues: v.matchValues, boundaryValue: v.boundaryValue, principal: [v.principal.sessionId, v.principal.agentName] };
}

const read = {
  request(v) {
    if (!isObject(v) || typeof v.createdAt !== "number") return { ok: false };
    for (const n of ["id", "requesterSessionId", "targetSessionId", "requesterAgentName"]) if (typeof v[n] !== "string") return { ok: false };
    return {
      ok: true, id: v.id, createdAt: Number.isFinite(v.createdAt) ? Math.trunc(v.createdAt) : null, requester: v.requesterSessionId,
      target: v.targetSessionId, agent: v.requesterAgentName, message: typeof v.message === "string" ? v.message : "",
      source: ["tool_call", "skill_input", "skill_read"].includes(v.source) ? v.source : "tool_call",
      surface: typeof v.surface === "string" ? v.surface : null, value: typeof v.value === "string" ? v.value : null,
      payload: payload(v.payload), grants: grants(v.sessionApproval), intent: intent(v.accessIntent),
    };
  },
  response(v) {
    if (!isObject(v) || typeof v.approved !== "boolean" || !STATES.includes(v.state) || typeof v.responderSessionId !== "string") return { ok: false };
    return { ok: true, approved: v.approved, state: v.state, reason: typeof v.denialReason === "string" ? v.denialReason : "",
      responder: v.responderSessionId, decidedBy: decision(v.decidedBy), width: v.sessionGrantWidth === "family" ? "family" : "proven" };
  },
  heartbeat(v) {
    const ok = isObject(v) && typeof v.sessionId === "string" && v.sessionId !== "" && Number.isInteger(v.pid) && v.pid > 0 && Number.isFinite(v.updatedAt);
    return ok ? { ok, session: v.sessionId, pid: v.pid, updatedAt: Math.trunc(v.updatedAt) } : { ok };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [kind, data] = line.split(" ");
  let out = { ok: false };
  try {
    out = read[kind](JSON.parse(Buffer.from(data ?? "", "base64").toString("utf8")));
  } catch {}
  process.stdout.write(JSON.stringify(out) + "\n");
}
