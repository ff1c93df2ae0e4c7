/**
 * `npm run alarms`: Prometheus' own tool checks the alarm rules and dashboards in deploy/. The rules are valid, each
 * alarm fires and is quiet when it should (deploy/prometheus/*.test.yml), and the queries are PromQL.
 *
 * npm has no promtool. The script takes the one on the path, or else unpacks that of Debian's package `prometheus` into
 * a temporary folder. That installs nothing and needs no root.
 *
 * Exit code 0: passed, 1: failed, 75: there is no promtool, so nothing was checked (macOS, other distributions, no
 * mirror). `.ci/run` then says so at its end and does not fail: rules and queries are the same on every machine, so
 * another run checks them, and a mirror that is down must not stop a fix. `npm test` checks their names everywhere.
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const RULES_AT = join(ROOT, 'deploy/prometheus');
const NOT_CHECKED = 75; // EX_TEMPFAIL of sysexits.h

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-alarms-'));
try {
  process.exitCode = check(folder);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function check(at: string): number {
  const promtool = promtoolOnPath() ?? unpackPromtool(at);
  if (promtool === null) {
    process.stderr.write(
      'The alarm rules were not checked: there is no promtool, and apt-get cannot download it. ' +
        'Install Prometheus, or put promtool on the path.\n',
    );
    return NOT_CHECKED;
  }
  const rules = globSync('*.rules.yml', { cwd: RULES_AT });
  const tests = globSync('*.test.yml', { cwd: RULES_AT }).toSorted();
  const queries = join(at, 'dashboards.rules.yml');
  writeFileSync(queries, queriesAsRules());
  const passed = [
    run(promtool, ['check', 'rules', ...rules, queries], RULES_AT),
    run(promtool, ['test', 'rules', ...tests], RULES_AT),
  ];
  return passed.every(Boolean) ? 0 : 1;
}

function promtoolOnPath(): string | null {
  return spawnSync('promtool', ['--version'], { stdio: 'ignore' }).status === 0 ? 'promtool' : null;
}

/** Tries the package lists of this machine first. A new container has none, so it then reads its own. */
function unpackPromtool(at: string): string | null {
  mkdirSync(join(at, 'lists/partial'), { recursive: true });
  const ownLists = ['-o', `Dir::State::lists=${join(at, 'lists')}`, '-o', `Dir::Cache=${at}`];
  const retries = ['-o', 'Acquire::Retries=3'];
  const isDownloaded =
    run('apt-get', [...retries, 'download', 'prometheus'], at) ||
    (run('apt-get', [...retries, ...ownLists, 'update'], at) &&
      run('apt-get', [...retries, ...ownLists, 'download', 'prometheus'], at));
  const [archive] = globSync('prometheus_*.deb', { cwd: at });
  if (!isDownloaded || archive === undefined) return null;
  return run('dpkg-deb', ['-x', archive, 'unpacked'], at)
    ? join(at, 'unpacked/usr/bin/promtool')
    : null;
}

/** Returns whether the command ran and exited with 0. Its output is shown. */
function run(command: string, args: readonly string[], cwd: string): boolean {
  return spawnSync(command, args, { cwd, stdio: 'inherit' }).status === 0;
}

/** The queries of the dashboards as recording rules, whose syntax promtool checks. */
function queriesAsRules(): string {
  const files = globSync('deploy/grafana/*.json', { cwd: ROOT });
  const queries = files.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    return [...text.matchAll(/"expr": ("(?:[^"\\]|\\.)*")/g)].map(
      ([, expr = '""']) => JSON.parse(expr) as string,
    );
  });
  const rules = queries.map((query, index) => ({
    record: `dashboard:query_${index}`,
    expr: query.replaceAll('$__rate_interval', '5m').replaceAll('$job', 'letterhaus'),
  }));
  return JSON.stringify({ groups: [{ name: 'dashboards', rules }] });
}
