/**
 * Results of DNS look-ups, as dry runs and diagnoses show them: types shared by the features that look up
 * (domains/, delivery/) and those that show. `unknown` always has its reason in `problem`: DNS did not answer
 * in time, or a limit of net/dns/allowance.ts was reached.
 */

export type AuthenticationFinding = {
  /** One per signature of the message. */
  dkim: DkimFinding[];
  spf: SpfFinding;
  dmarc: DmarcFinding;
};

/** `aligned`: the domain counts as that of the From address (RFC 7489 §3.1). */
export type DkimFinding = {
  domain: string;
  selector: string;
  algorithm: 'rsa-sha256' | 'ed25519-sha256';
  verdict: 'pass' | 'fail' | 'unknown';
  aligned: boolean;
  problem: string | null;
};

export type SpfFinding = {
  /** The domain of the return path. */
  domain: string;
  verdict: 'pass' | 'fail' | 'unknown';
  aligned: boolean;
  problem: string | null;
};

export type DmarcFinding = {
  /** The domain whose record applies; null: none, or unknown. */
  domain: string | null;
  policy: 'none' | 'quarantine' | 'reject' | null;
  /** `none`: there is no record. */
  verdict: 'pass' | 'fail' | 'none' | 'unknown';
  problem: string | null;
};

export type RouteFinding = {
  /** `none`: the domain cannot be sent to; `problem` has the reason. */
  verdict: 'found' | 'none' | 'unknown';
  /** The provider whose limits apply; null: unknown. */
  provider: string | null;
  /** In the order in which they are tried. */
  mx: {
    host: string;
    preference: number;
    addresses: string[];
    /** `barred`: nothing is sent to this server. */
    tls: { mode: string; policy: string; problem: string | null };
  }[];
  problem: string | null;
};

export function unknownRoute(problem: string): RouteFinding {
  return { verdict: 'unknown', provider: null, mx: [], problem };
}
