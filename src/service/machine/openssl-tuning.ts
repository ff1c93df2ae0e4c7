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
 * version of OpenSSL that it is for. Another processor or version is measured again.
 */
import { execFile } from 'node:child_process';
import { getDiffieHellman } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { moduleFile } from '../../config/module-file.ts';

export type OpensslTuning = { readonly OPENSSL_ia32cap?: string };

/** Bit 19 of the second word: ADX (CPUID leaf 7). Without it OpenSSL multiplies with AVX2. */
export const WITHOUT_ADX: OpensslTuning = { OPENSSL_ia32cap: ':~0x80000' };
/** A smaller difference is within the noise of a busy machine. */
const WORTH_IT = 0.92;
const BATCHES = 5;
const BATCH_SIZE = 6;
const MEASURE_WITHIN_MS = 2000;
/** Prints the time of one exponentiation in its process. */
const SCRIPT = moduleFile(new URL('./openssl-time.ts', import.meta.url));

type Surroundings = { arch: string; env: NodeJS.ProcessEnv };

const FILE = 'openssl.json';

/** Returns the choice without measuring, or null when it has to be measured. */
export function findOpensslTuning(
  dataDir: string,
  surroundings: Surroundings = process,
): OpensslTuning | null {
  if (!isMeasured(surroundings)) return {};
  try {
    const stored = JSON.parse(readFileSync(join(dataDir, FILE), 'utf8')) as Record<string, unknown>;
    const { withoutAdx, ...measuredOn } = stored;
    if (JSON.stringify(measuredOn) !== JSON.stringify(machine())) return null;
    if (typeof withoutAdx !== 'boolean') return null;
    return withoutAdx ? WITHOUT_ADX : {};
  } catch {
    return null;
  }
}

/** Stores a measured choice for the next start. Where that fails, the next start measures again. */
export function storeOpensslTuning(
  dataDir: string,
  tuning: OpensslTuning,
  surroundings: Surroundings = process,
): void {
  if (!isMeasured(surroundings)) return;
  const stored = { ...machine(), withoutAdx: tuning.OPENSSL_ia32cap !== undefined };
  const file = join(dataDir, FILE);
  try {
    writeFileSync(`${file}.new`, `${JSON.stringify(stored)}\n`, { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch {
    // For example a full disk, which the service reports itself.
  }
}

/** Returns the parts on which the faster implementation depends. */
function machine(): { processor: string; openssl: string } {
  return { processor: processor(), openssl: process.versions.openssl };
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

export function chosen({ withAdxUs, withoutAdxUs }: Times): OpensslTuning {
  return withoutAdxUs !== null && withoutAdxUs < withAdxUs * WORTH_IT ? WITHOUT_ADX : {};
}

async function elsewhere(env: NodeJS.ProcessEnv): Promise<number | null> {
  const args = [...process.execArgv, SCRIPT];
  try {
    const options = { env, timeout: MEASURE_WITHIN_MS };
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
