/** An address of a mail server, and how a session to it is opened; the key that sessions are kept under. */
import type { SmtpTlsMode } from '../../net/smtp/client.ts';
import type { DaneExpectation } from '../../net/tls/dane.ts';

export type Target = {
  provider: string;
  /** MX host name. */
  host: string;
  address: string;
  tls: SmtpTlsMode;
  reducedHello?: boolean;
  /** TLS has worked there lately: this attempt requires it although the mode is opportunistic. */
  expectsTls?: boolean;
  /** With the mode `dane`. `daneKey` separates sessions that were opened under other TLSA records. */
  dane?: DaneExpectation;
  daneKey?: string;
};

/** A session opened under a weaker TLS rule must not carry a message that needs a stronger one. */
export function keyOf({ host, address, tls, daneKey = '' }: Target): string {
  return `${host} ${address} ${tls} ${daneKey}`;
}
