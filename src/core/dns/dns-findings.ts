/**
 * Results of DNS look-ups for dry runs and diagnoses. domains/ and delivery/ produce them, and the API returns them.
 * A `verdict` of `unknown` states its reason in `problem`: DNS did not answer in time, or a limit of
 * net/dns/lookup-allowance.ts was reached.
 */

export type AuthenticationFinding = {
  dkim: DkimFinding[];
  spf: SpfFinding;
  dmarc: DmarcFinding;
};

/** `aligned`: the domain counts as the domain of the From address (RFC 7489 §3.1). */
export type DkimFinding = {
  domain: string;
  selector: string;
  algorithm: 'rsa-sha256' | 'ed25519-sha256';
  verdict: 'pass' | 'fail' | 'unknown';
  aligned: boolean;
  problem: string | null;
};

export type SpfFinding = {
  domain: string;
  verdict: 'pass' | 'fail' | 'unknown';
  aligned: boolean;
  problem: string | null;
};

export type DmarcFinding = {
  /** The domain whose record applies; null when there is none, or it is unknown. */
  domain: string | null;
  policy: 'none' | 'quarantine' | 'reject' | null;
  /** `none`: the domain has no record. */
  verdict: 'pass' | 'fail' | 'none' | 'unknown';
  problem: string | null;
};

export type RouteFinding = {
  /** `none`: no mail can be sent to the domain; `problem` states the reason. */
  verdict: 'found' | 'none' | 'unknown';
  /** The provider whose limits apply; null when unknown. */
  provider: string | null;
  mx: {
    host: string;
    preference: number;
    addresses: string[];
    /** `barred`: its TLS rule forbids sending to this host. */
    tls: { mode: string; policy: string; problem: string | null };
  }[];
  problem: string | null;
};

export function unknownRoute(problem: string): RouteFinding {
  return { verdict: 'unknown', provider: null, mx: [], problem };
}
