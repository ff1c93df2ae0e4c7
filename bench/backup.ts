/**
 * `npm run bench -- backup`: measures how long a backup takes while mail flows at half of this machine's highest rate,
 * how long its verification takes, and how long a restore into an embedded database takes. The mail is that of the
 * other rows: 20 KB, accepted over HTTP and delivered to the sink. The benchmark then replaces half of the html with
 * random digits, so that the mail compresses to about a quarter. Copies of one template would compress to a hundredth.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cleanEnv, letterhaus, type Env } from '../test/support/letterhaus.ts';
import { show } from './numbers.ts';
import { Sink } from './parts/children.ts';
import { machineMs } from './parts/machine-clock.ts';
import { DOMAINS, Rig } from './parts/rig.ts';
import { endToEndRound } from './rates.ts';
import { alignColumns } from './report.ts';
import { MIB } from '../src/lib/units.ts';

export type BackupBenchOptions = { emails: number; workers: number };

const HTML_BYTES = 20_480;
/** Puts 10 KB of hexadecimal digits into each row, different in each. */
const MIX = `
update contents set large_html = left(large_html, 10240) ||
  (select string_agg(md5(random()::text || email_id || part), '') from generate_series(1, 320) part)`;
/** Concurrent clients of the load during the backup. */
const CONNECTIONS = 32;
/** Seconds of load that the benchmark posts at a time. They are few, so that the load ends soon after the backup. */
const SLICE_S = 2;

type Made = { rows: Record<string, number>; bytes: number };

/** @returns the table as text */
export async function measureBackup(
  { emails, workers }: BackupBenchOptions,
  say: (line: string) => void,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-backup-bench-'));
  const file = join(folder, 'bench.backup');
  try {
    const { backup, load, secretKey } = await backUp({ emails, workers, file }, say);
    say('  checking and restoring it');
    const check = await timed(['backup', '--verify', file], {});
    const home = {
      LETTERHAUS_DATA_DIR: join(folder, 'data'),
      LETTERHAUS_SECRET_KEY: secretKey,
    };
    const restore = await timed(['restore', file], home);
    const { bytes } = check.answer;
    const row = (what: string, { seconds }: Timed, meanwhile: string): string[] => [
      what,
      seconds.toFixed(1),
      show(bytes / MIB / seconds),
      meanwhile,
    ];
    return `${alignColumns([
      ['', 'seconds', 'MB/s of rows', 'emails a second meanwhile'],
      row('backup', backup, `${show(load.perSecond)} of ${show(load.fullPerSecond)}`),
      row('check', check, ''),
      row('restore', restore, ''),
    ])}\n${check.answer.rows['emails']} emails, ${show(bytes / MIB)} MB of rows, a file of ${show(statSync(file).size / MIB)} MB\n`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function backUp(
  { emails, workers, file }: BackupBenchOptions & { file: string },
  say: (line: string) => void,
) {
  // Both machines get this key, so the backup needs no passphrase, whose derivation would take seconds.
  const secretKey = 'a secret key of at least 32 characters';
  await using sink = await Sink.start();
  const env = { LETTERHAUS_SECRET_KEY: secretKey };
  await using rig = await Rig.start({ workers, mxPort: sink.port, env });
  say(`  ${emails.toLocaleString('en-US')} emails of 20 KB`);
  const mail = { htmlBytes: HTML_BYTES, batch: 100, connections: 8 };
  await endToEndRound({ rig, sink }, { ...mail, count: emails });
  await rig.service.sql(MIX);
  await rig.service.sql('vacuum contents');
  const single = { htmlBytes: HTML_BYTES, connections: CONNECTIONS };
  const { perSecond: fullPerSecond } = await endToEndRound(
    { rig, sink },
    { ...single, count: Math.ceil(emails / 20) },
  );
  say(`  a backup while half of ${show(fullPerSecond)} emails a second flow`);
  const load = startLoad(rig, fullPerSecond / 2);
  const backup = await timed(['backup', '--without-secret-key', file], rig.service.env);
  return { backup, load: { perSecond: await load.stop(), fullPerSecond }, secretKey };
}

/** Posts requests at a fixed rate, whatever the response times are. */
function startLoad(rig: Rig, perSecond: number): { stop: () => Promise<number> } {
  const count = Math.ceil(perSecond * SLICE_S);
  const slice = { count, htmlBytes: HTML_BYTES, connections: CONNECTIONS, pauseMs: 0, perSecond };
  const end = new AbortController();
  let posted = 0;
  const startedMs = machineMs();
  const running = (async () => {
    while (!end.signal.aborted) {
      await rig.post({ ...slice, domains: DOMAINS });
      posted += count;
    }
    return posted / ((machineMs() - startedMs) / 1_000);
  })();
  return {
    stop: () => {
      end.abort();
      return running;
    },
  };
}

type Timed = { seconds: number; answer: Made };

async function timed(args: readonly string[], env: Env): Promise<Timed> {
  const startedMs = machineMs();
  const { code, stdout, stderr } = await letterhaus([...args, '--json'], cleanEnv(env));
  const seconds = (machineMs() - startedMs) / 1_000;
  if (code !== 0) throw new Error(`letterhaus ${args.join(' ')}: ${stderr}`);
  return { seconds, answer: JSON.parse(stdout) as Made };
}
