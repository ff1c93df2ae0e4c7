/** One address of a mail server, with the TLS rule for sessions to it. */
import type { SmtpTlsMode } from '../../net/smtp/client.ts';
import type { DaneExpectation } from '../../net/tls/dane.ts';

export type SmtpTarget = {
  provider: string;
  host: string;
  address: string;
  tls: SmtpTlsMode;
  reducedHello?: boolean;
  /** TLS worked with this host in the last 3 days, so the attempt requires it even in opportunistic mode. */
  expectsTls?: boolean;
  /** Set with the mode `dane`. `daneKey` separates sessions that were opened under different TLSA records. */
  dane?: DaneExpectation;
  daneKey?: string;
};

/** Returns the key of a session. It contains the TLS rule, because a weaker one must not carry the message. */
export function sessionKeyOf({ host, address, tls, daneKey = '' }: SmtpTarget): string {
  return `${host} ${address} ${tls} ${daneKey}`;
}
