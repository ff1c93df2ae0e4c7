/**
 * OpenSSL tuning: selects the faster of its two RSA implementations on this processor.
 *
 * A DKIM signature by RSA-2048 is two exponentiations modulo 1024 bits. It takes about as much of a worker's time as
 * the rest of its work for an email. OpenSSL has one implementation for processors with ADX (`mulx`) and one with AVX2,
 * and uses the first wherever there is ADX. On some processors the second is faster by a third. So both are measured,
 * in about 100 ms while the database starts. A process reads the choice only when it starts (OPENSSL_ia32cap,
 * openssl-ia32cap(3)).
 *
 * Workers cannot be forked before. So the data directory keeps the choice in openssl.json, with the processor and the
 * versions of Node and OpenSSL that it is for. Another processor or version is measured again.
 *
 * The first start measures in a hurry, perhaps on a busy machine. So the running service measures again in the
 * background, several times in turns, and then every 30 days. The next start uses the result.
 */
import { execFile } from 'node:child_process';
import { getDiffieHellman } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { moduleFile } from '../../config/module-file.ts';
import { DAY_MS } from '../../lib/units.ts';

export type OpensslTuning = { readonly OPENSSL_ia32cap?: string };

/** Bit 19 of the second word: ADX (CPUID leaf 7). Without it OpenSSL multiplies with AVX2. */
export const WITHOUT_ADX: OpensslTuning = { OPENSSL_ia32cap: ':~0x80000' };
/** A smaller difference is within the noise of a busy machine. */
const WORTH_IT = 0.92;
const BATCHES = 5;
const BATCH_SIZE = 6;
const MEASURE_WITHIN_MS = 2000;
/** Rounds in the background. Their median ignores two rounds that other programs disturbed. */
const ROUNDS = 5;
const MEASURED_AGAIN_AFTER_MS = 30 * DAY_MS;
/** Prints the time of one exponentiation in its process. */
const SCRIPT = moduleFile(new URL('./openssl-time.ts', import.meta.url));

type Surroundings = { arch: string; env: NodeJS.ProcessEnv };

const FILE = 'openssl.json';

type StoredTuning = {
  tuning: OpensslTuning;
  /** Time of the measurement in the background, or null before the first one. */
  checkedAtMs: number | null;
};

/** Returns the choice without measuring, or null when it has to be measured. */
export function findOpensslTuning(
  dataDir: string,
  surroundings: Surroundings = process,
): OpensslTuning | null {
  if (!isMeasured(surroundings)) return {};
  return readStored(dataDir)?.tuning ?? null;
}

function readStored(dataDir: string): StoredTuning | null {
  try {
    const stored = JSON.parse(readFileSync(join(dataDir, FILE), 'utf8')) as Record<string, unknown>;
    const { withoutAdx, checkedAtMs = null, ...measuredOn } = stored;
    if (JSON.stringify(measuredOn) !== JSON.stringify(machine())) return null;
    if (typeof withoutAdx !== 'boolean') return null;
    if (checkedAtMs !== null && typeof checkedAtMs !== 'number') return null;
    return { tuning: withoutAdx ? WITHOUT_ADX : {}, checkedAtMs };
  } catch {
    return null;
  }
}

/**
 * Stores a measured choice for the next start. Where that fails, the next start measures again.
 * @param checkedAtMs time of a measurement in the background, or null for that of a start
 */
export function storeOpensslTuning(
  dataDir: string,
  { tuning, checkedAtMs }: StoredTuning,
  surroundings: Surroundings = process,
): void {
  if (!isMeasured(surroundings)) return;
  const withoutAdx = tuning.OPENSSL_ia32cap !== undefined;
  const checked = checkedAtMs === null ? {} : { checkedAtMs };
  const file = join(dataDir, FILE);
  try {
    const text = JSON.stringify({ ...machine(), withoutAdx, ...checked });
    writeFileSync(`${file}.new`, `${text}\n`, { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch {
    // For example a full disk, which the service reports itself.
  }
}

type Rechecking = {
  nowMs: number;
  surroundings?: Surroundings;
  /** Aborted when the service stops. */
  signal?: AbortSignal;
  measure?: typeof measureInTurns;
};

/**
 * Measures again when the last measurement in the background is old, or there was none, and stores the choice for the
 * next start. Runs in processes of its own, so it delays nothing here. A measurement that fails changes nothing.
 * @returns whether it measured
 */
export async function recheckOpensslTuning(
  dataDir: string,
  { nowMs, surroundings = process, signal, measure = measureInTurns }: Rechecking,
): Promise<boolean> {
  if (!isMeasured(surroundings)) return false;
  const checkedAtMs = readStored(dataDir)?.checkedAtMs ?? null;
  // A time in the future is one of a clock that was wrong.
  const ageMs = checkedAtMs === null ? Infinity : Math.abs(nowMs - checkedAtMs);
  if (ageMs < MEASURED_AGAIN_AFTER_MS) return false;
  const times = await measure(surroundings.env, signal);
  if (times === null) return false;
  storeOpensslTuning(dataDir, { tuning: chosen(times), checkedAtMs: nowMs }, surroundings);
  return true;
}

/** Returns the parts on which the faster implementation depends. */
function machine(): { processor: string; node: string; openssl: string } {
  const { node, openssl } = process.versions;
  return { processor: processor(), node, openssl };
}

/** Returns the name with family, model and stepping where Linux reports them: virtual machines hide names. */
function processor(): string {
  try {
    const [first = ''] = readFileSync('/proc/cpuinfo', 'utf8').split('\n\n', 1);
    const fields = first.match(/^(model name|cpu family|model|stepping)\s*:.*$/gm) ?? [];
    return fields.map((line) => line.replace(/^.*?:\s*/, '')).join(' / ');
  } catch {
    return cpus()[0]?.model ?? '';
  }
}

function isMeasured({ arch, env }: Surroundings): boolean {
  return arch === 'x64' && env['OPENSSL_ia32cap'] === undefined;
}

/** Returns no variables when the operator has set this one, on other processors, and when measuring fails. */
export async function tuneOpenssl(surroundings: Surroundings = process): Promise<OpensslTuning> {
  if (!isMeasured(surroundings)) return {};
  return chosen(await measureBoth(surroundings.env));
}

/** Times of one exponentiation. `withoutAdxUs` is null where it could not be measured. */
type Times = { withAdxUs: number; withoutAdxUs: number | null };

export async function measureBoth(env: NodeJS.ProcessEnv): Promise<Times> {
  const withoutAdxUs = await elsewhere({ ...env, ...WITHOUT_ADX });
  return { withAdxUs: exponentiationUs(), withoutAdxUs };
}

/** Measures both in turns, each in a process of its own. Returns null when one of them cannot be measured. */
export async function measureInTurns(
  env: NodeJS.ProcessEnv,
  signal?: AbortSignal,
): Promise<Times | null> {
  const rounds: { withAdxUs: number; withoutAdxUs: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const withAdxUs = await elsewhere(env, signal);
    const withoutAdxUs = await elsewhere({ ...env, ...WITHOUT_ADX }, signal);
    if (withAdxUs === null || withoutAdxUs === null) return null;
    rounds.push({ withAdxUs, withoutAdxUs });
  }
  return medianOf(rounds);
}

/** Returns the round with the median ratio: both of its times are of the same moment. */
export function medianOf<Round extends { withAdxUs: number; withoutAdxUs: number }>(
  rounds: readonly Round[],
): Round {
  const ratio = ({ withAdxUs, withoutAdxUs }: Round): number => withoutAdxUs / withAdxUs;
  return rounds.toSorted((one, other) => ratio(one) - ratio(other))[Math.floor(rounds.length / 2)]!;
}

export function chosen({ withAdxUs, withoutAdxUs }: Times): OpensslTuning {
  return withoutAdxUs !== null && withoutAdxUs < withAdxUs * WORTH_IT ? WITHOUT_ADX : {};
}

async function elsewhere(env: NodeJS.ProcessEnv, signal?: AbortSignal): Promise<number | null> {
  const args = [...process.execArgv, SCRIPT];
  try {
    const options = { env, signal, timeout: MEASURE_WITHIN_MS };
    const { stdout } = await promisify(execFile)(process.execPath, args, options);
    const us = Number(stdout);
    return us > 0 ? us : null;
  } catch {
    return null;
  }
}

/**
 * Returns the time of one exponentiation of the size that a signature needs twice. It measures a Diffie-Hellman
 * exchange in the group of RFC 2409 §6.2, which uses the same code of OpenSSL and needs no key. The fastest of some
 * batches counts, because other programs can only slow it down.
 */
export function exponentiationUs(): number {
  const own = getDiffieHellman('modp2');
  const peer = own.generateKeys();
  let fastestUs = Number.POSITIVE_INFINITY;
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const start = process.cpuUsage();
    for (let round = 0; round < BATCH_SIZE; round += 1) own.computeSecret(peer);
    const { user, system } = process.cpuUsage(start);
    fastestUs = Math.min(fastestUs, (user + system) / BATCH_SIZE);
  }
  return fastestUs;
}
