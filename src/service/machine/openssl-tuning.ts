/**
 * OpenSSL tuning: selects the faster of its two RSA implementations on this processor.
 *
 * A DKIM signature by RSA-2048 is two exponentiations modulo 1024 bits. It takes about as much of a worker's time as
 * the rest of its work for an email. OpenSSL has one implementation for processors with ADX (`mulx`) and one with AVX2,
 * and uses the first wherever there is ADX. On some processors the second is faster by a third. So both are measured,
 * in about 100 ms while the database starts. A process reads the choice only when it starts (OPENSSL_ia32cap,
 * openssl-ia32cap(3)).
 */
import { execFile } from 'node:child_process';
import { getDiffieHellman } from 'node:crypto';
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

/** Returns no variables when the operator has set this one, on other processors, and when measuring fails. */
export async function tuneOpenssl({ arch, env }: Surroundings = process): Promise<OpensslTuning> {
  if (arch !== 'x64' || env['OPENSSL_ia32cap'] !== undefined) return {};
  return chosen(await measureBoth(env));
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
