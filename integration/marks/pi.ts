// Marks the turns of a Pi session for pioneer-super: what was allowed for a turn ends
// with it. Where no tree is above, it does nothing; a mark that fails changes nothing,
// since a mark can only end what was granted.
import { execFile } from "node:child_process";

const mark = (what) =>
	process.env.PIONEER_SUPER_SOCKET || process.env.PIONEER_SUPER_FD
		? new Promise((done) => execFile("pioneer-super", ["turn", what], { timeout: 10000 }, () => done(undefined)))
		: undefined;

export default function (pi) {
	pi.on("agent_start", () => mark("start"));
	pi.on("agent_end", () => mark("end"));
}
