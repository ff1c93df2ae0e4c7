/**
 * `npm run compose-check`: the reader of compose files that Docker itself uses (compose-go) reads those of
 * deploy/docker, each alone and as docs/docker.md combines them, and refuses a file with a wrong field. Go builds it.
 * Exit code 75: there is no Go, so nothing was checked. test/tidy/containers.ts has the rules about Letterhaus.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FOLDER = join(import.meta.dirname, '../deploy/docker');
const READER = 'github.com/compose-spec/compose-go/v2/cmd@latest';
const NOT_CHECKED = 75; // EX_TEMPFAIL of sysexits.h

/** Combinations of files that must be accepted. */
const ACCEPTED = [['compose.yml'], ['compose.yml', 'compose.postgres.yml']];
/** Files that must be refused, and what the refusal says. */
const REFUSED: { text: string; says: RegExp }[] = [
  { text: 'services: { a: { image: b, imge: c } }', says: /imge/ },
  { text: 'services: { a: { image: b, read_only: [] } }', says: /read_only/ },
  { text: 'service: { a: { image: b } }', says: /service/ },
];

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-compose-'));
try {
  process.exitCode = check(folder);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function check(at: string): number {
  const env = { ...process.env, GOBIN: at };
  const { status } = spawnSync('go', ['install', READER], { env, stdio: 'inherit' });
  if (status !== 0) {
    process.stderr.write('The compose files were not checked: Go cannot build compose-go.\n');
    return NOT_CHECKED;
  }
  const reader = join(at, 'cmd');
  const passed = [
    ...ACCEPTED.map((files) => accepts(reader, files)),
    ...REFUSED.map((refused) => refuses(reader, at, refused)),
  ];
  return passed.every(Boolean) ? 0 : 1;
}

function accepts(reader: string, files: readonly string[]): boolean {
  const { status, stderr } = read(reader, FOLDER, files);
  process.stdout.write(
    `${files.join(' + ')}: ${status === 0 ? 'valid' : `NOT VALID\n${stderr}`}\n`,
  );
  return status === 0;
}

function refuses(reader: string, at: string, { text, says }: (typeof REFUSED)[number]): boolean {
  writeFileSync(join(at, 'compose.yml'), text);
  const { status, stderr } = read(reader, at, ['compose.yml']);
  const isRefused = status !== 0 && says.test(stderr);
  process.stdout.write(`${text}: ${isRefused ? 'refused' : `NOT REFUSED\n${stderr}\n`}\n`);
  return isRefused;
}

/** Without a value for variables: those that are required have none here. */
function read(reader: string, cwd: string, files: readonly string[]) {
  return spawnSync(reader, ['-no-interpolation', ...files], { cwd, encoding: 'utf8' });
}
