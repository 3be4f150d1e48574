// Asks the published permission extension what its patterns, targets and
// suggestions are, and prints the answers as JSON Lines. Run with the package
// unpacked beside node_modules/esbuild:
//
//   npm pack @gotgenes/pi-permission-system@20.7.3 && tar xzf *.tgz && npm i esbuild
//   HOME=/home/u node generate.mjs DIR | gzip -9n >answers.jsonl.gz
import { createRequire } from "node:module";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { tmpdir } from "node:os";

const dir = process.argv[2];
const esbuild = createRequire(join(dir, "x.js"))("esbuild");
const out = mkdtempSync(join(tmpdir(), "extension-"));
const load = async (file) => {
  const target = join(out, file.replaceAll("/", "_") + ".mjs");
  await esbuild.build({ entryPoints: [join(dir, "package/src", file)], outfile: target, bundle: true, platform: "node", format: "esm", logLevel: "error",
    plugins: [{ name: "src", setup(b) { b.onResolve({ filter: /^#src\// }, (a) => ({ path: join(dir, "package/src", a.path.slice(5)) + ".ts" })); } }] });
  return import(target);
};
const { wildcardMatch } = await load("wildcard-matcher.ts");
const { createMcpPermissionTargets } = await load("access-intent/mcp-targets.ts");
const { suggestBashPattern, suggestMcpPattern } = await load("pattern-suggest.ts");

// A small generator of its own, so that every run prints the same.
let seed = 20260101;
const rnd = (n) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 4294967296) * n);
};
const pick = (list) => list[rnd(list.length)];
const text = (alphabet, max) => Array.from({ length: rnd(max + 1) }, () => pick(alphabet)).join("");

const valueLetters = ["a", "b", " ", "/", ".", "-", "\n", "é", "*", "?", "~", "[", "]", "(", "$", "^", "|", "\\", "+", "{", "}"];
const patternLetters = [...valueLetters, "*", "*", "?", " *", "**"];
const print = (o) => process.stdout.write(JSON.stringify(o) + "\n");

const fixed = ["git *", "a **", "*", " *", "~", "~/x", "$HOME/x", "~/*", "~root/x", "$HOMEDIR/x", "a? *", "*.env", "/w/**/x", "git * push"];
for (let i = 0; i < 12000; i++) {
  let value = text(valueLetters, 8);
  if (rnd(8) === 0) value = "/home/u" + pick(["", "/", "/x", "/a b"]);
  let pattern;
  switch (rnd(4)) {
    case 0:
      pattern = text(patternLetters, 6);
      break;
    case 1:
      pattern = pick(fixed);
      break;
    default: {
      // From the value, with pieces replaced, so that many match.
      const r = Array.from(value);
      for (let k = rnd(3); k > 0 && r.length; k--) {
        const at = rnd(r.length);
        r.splice(at, rnd(r.length - at + 1), pick(["*", "?", " *", "**"]));
      }
      pattern = r.join("");
    }
  }
  // Its home is joined with "..", "." and "//" resolved; ours is put in front.
  if (/^(~|\$HOME)[/\\]/.test(pattern) && /\.|\/\/|[/\\]$|\\/.test(pattern.slice(1))) continue;
  print({ kind: "match", pattern, value, match: wildcardMatch(pattern, value) });
}

const names = ["big_exa", "exa", "x"]; // as its caller sorts them, the longest first
const parts = ["", " ", "exa", "exa:search", "search_exa", "exa_search_exa", ":x", "a:b:c", " gh : read ", "x_big_exa"];
for (let i = 0; i < 1500; i++) {
  const call = {};
  for (const field of ["tool", "server", "connect", "describe", "search"]) if (rnd(2) === 0) call[field] = pick(parts);
  print({ kind: "targets", call, targets: createMcpPermissionTargets(call, names) });
}

const words = ["git", "push", "npm", "run", "build", "aws", "s3", "ls", "docker", "compose", "up", "mytool", "-x", "gh", "pr", "view", "cargo", "GIT", "uv", "pip", "make", "a/b", "--flag=x"];
for (let i = 0; i < 2000; i++) {
  const command = Array.from({ length: 1 + rnd(5) }, () => pick(words)).join(" ");
  print({ kind: "bash", value: command, suggestion: suggestBashPattern(command) });
}
for (const value of ["a:b", "a_b", "a", ":b", "_b", "a:", "a_", " a:b ", "a_b:c"]) print({ kind: "mcp", value, suggestion: suggestMcpPattern(value) });
