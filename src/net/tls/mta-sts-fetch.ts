/**
 * Getting a domain's MTA-STS policy (RFC 8461 §3.3): one HTTPS GET to a fixed place, no redirect, a
 * certificate that holds, status 200, at most 64 KiB. The domain was chosen by whoever wrote the
 * recipient's address, so the request goes through the address guard like every other. What fails
 * is a value, in the words of TLS reports (RFC 8460 §4.3).
 */
import type { World } from '../../core/world.ts';
import type { AddressGuard } from '../http/address-guard.ts';
import type { Resolver } from '../dns/resolver.ts';
import { guardedRequest } from '../http/guarded-client.ts';
import { parseStsPolicy, type StsPolicy } from './mta-sts.ts';
import type { PolicyResult } from './policy.ts';

export type FetchedPolicy =
  | { kind: 'policy'; policy: StsPolicy }
  | { kind: 'failed'; result: PolicyResult; message: string };

export type FetchOptions = {
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  guard: AddressGuard;
  world: Pick<World, 'monotonicMs'>;
  /** 443 but in tests. */
  port: number;
};

/** An email waits for it, once per domain: the minute that the RFC proposes is too long for that. */
const TIMEOUT_MS = 10_000;
const POLICY_BYTES_MAX = 65_536;

/** @param domain the recipient's, A-labels in lower case */
export async function fetchStsPolicy(
  domain: string,
  { port, ...options }: FetchOptions,
): Promise<FetchedPolicy> {
  const answer = await guardedRequest({
    ...options,
    url: `https://mta-sts.${domain}${port === 443 ? '' : `:${port}`}/.well-known/mta-sts.txt`,
    method: 'GET',
    headers: { accept: 'text/plain' },
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: POLICY_BYTES_MAX,
    allowHttp: false,
  });
  if (answer.kind === 'failed') {
    const isCertificate = answer.reason === 'tls';
    return failed(isCertificate ? 'sts-webpki-invalid' : 'sts-policy-fetch-error', answer.message);
  }
  if (answer.status !== 200) {
    return failed('sts-policy-fetch-error', `the policy host answered ${answer.status}`);
  }
  if (!answer.bodyComplete) {
    return failed('sts-policy-invalid', 'the policy is larger than 64 KiB or broke off');
  }
  if (!isText(answer.headers.contentType)) {
    return failed('sts-policy-invalid', `the policy is not text/plain`);
  }
  const parsed = parseStsPolicy(answer.bodyStart);
  return 'policy' in parsed
    ? { kind: 'policy', policy: parsed.policy }
    : failed('sts-policy-invalid', parsed.problem);
}

/** §3.2 wants text/plain, against hosts that let strangers upload pages; none at all is let pass. */
function isText(contentType: string | null): boolean {
  return contentType === null || /^text\/plain\s*(?:;|$)/i.test(contentType.trim());
}

function failed(result: PolicyResult, message: string): FetchedPolicy {
  return { kind: 'failed', result, message };
}
