/**
 * OpenSSL tuning: selects the faster of its two implementations of RSA on this processor.
 *
 * A DKIM signature by RSA-2048 is two exponentiations modulo 1024 bits, and takes about as much of a
 * worker's time as everything else it does for an email. OpenSSL has one implementation for processors
 * with ADX (`mulx`) and one with AVX2, and uses the first wherever there is ADX. On some processors
 * the second is faster by a third, so both are measured, in about 100 ms while the database starts.
 * A process reads the choice only when it starts (OPENSSL_ia32cap, openssl-ia32cap(3)).
 *
 * Run as a script, this file prints what one exponentiation takes in its process.
 */
import { execFile } from 'node:child_process';
import { getDiffieHellman } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Variables to add to the environment of workers. */
export type OpensslTuning = { readonly OPENSSL_ia32cap?: string };

/** Bit 19 of the second word: ADX (CPUID leaf 7). Without it OpenSSL multiplies with AVX2. */
export const WITHOUT_ADX: OpensslTuning = { OPENSSL_ia32cap: ':~0x80000' };
/** A smaller difference is within the noise of a busy machine. */
const WORTH_IT = 0.92;
const BATCHES = 5;
const BATCH_SIZE = 6;
const MEASURE_WITHIN_MS = 2000;

type Surroundings = { arch: string; env: NodeJS.ProcessEnv };

/** Empty when the operator has set the variable, on other processors, and when measuring fails. */
export async function tuneOpenssl({ arch, env }: Surroundings = process): Promise<OpensslTuning> {
  if (arch !== 'x64' || env['OPENSSL_ia32cap'] !== undefined) return {};
  return chosen(await measureBoth(env));
}

/** The time of one exponentiation. `withoutAdxUs` is null where it could not be measured. */
type Times = { withAdxUs: number; withoutAdxUs: number | null };

export async function measureBoth(env: NodeJS.ProcessEnv): Promise<Times> {
  const withoutAdxUs = await elsewhere({ ...env, ...WITHOUT_ADX });
  return { withAdxUs: exponentiationUs(), withoutAdxUs };
}

export function chosen({ withAdxUs, withoutAdxUs }: Times): OpensslTuning {
  return withoutAdxUs !== null && withoutAdxUs < withAdxUs * WORTH_IT ? WITHOUT_ADX : {};
}

/** Measured in a process of its own, with that environment. */
async function elsewhere(env: NodeJS.ProcessEnv): Promise<number | null> {
  const args = [...process.execArgv, fileURLToPath(import.meta.url)];
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
 * One exponentiation of the size that a signature needs two of: a Diffie-Hellman exchange in the
 * group of RFC 2409 §6.2, which uses the same code of OpenSSL and needs no key. The fastest of some
 * batches counts, because other programs can only slow it down.
 */
function exponentiationUs(): number {
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

if (import.meta.main) process.stdout.write(String(exponentiationUs()));
