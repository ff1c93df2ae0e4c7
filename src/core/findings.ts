/**
 * What a look at DNS found, as dry runs and diagnoses show it. The features that look (domains/,
 * delivery/) and those that show share these forms. `unknown` always has its reason in `problem`: DNS did
 * not answer in time, or a bound of net/dns/allowance.ts was reached.
 */

/** How a receiver would judge the sender of a message. */
export type AuthenticationFinding = {
  /** Of each signature that the message carries. */
  dkim: readonly DkimFinding[];
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
  /** Of the return path. */
  domain: string;
  verdict: 'pass' | 'fail' | 'unknown';
  aligned: boolean;
  problem: string | null;
};

export type DmarcFinding = {
  /** Whose record applies; null: none does, or it is not known. */
  domain: string | null;
  policy: 'none' | 'quarantine' | 'reject' | null;
  /** `none`: there is no record. */
  verdict: 'pass' | 'fail' | 'none' | 'unknown';
  problem: string | null;
};

/** Where mail for a domain goes. */
export type RouteFinding = {
  /** `none`: the domain cannot be sent to; `problem` has the reason. */
  verdict: 'found' | 'none' | 'unknown';
  /** Whose limits apply; null while that is not known. */
  provider: string | null;
  /** In the order in which they are tried. */
  mx: readonly {
    host: string;
    preference: number;
    addresses: readonly string[];
    /** `barred`: nothing is sent to this server. */
    tls: { mode: string; policy: string; problem: string | null };
  }[];
  problem: string | null;
};

export function unknownRoute(problem: string): RouteFinding {
  return { verdict: 'unknown', provider: null, mx: [], problem };
}
