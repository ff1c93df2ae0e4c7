/** The variables of notifications to the operator (docs/monitoring.md), and of the daily doctor (docs/doctor.md). */
import { type Address, type Mailbox, parseAddress, parseMailbox } from '../mail/address.ts';
import type { EnvReader } from './env-reader.ts';

export type OperatorConfig = {
  /** The webhook for events of the installation; null for none. Its secret is generated when it is null. */
  operatorWebhook: { url: string; secret: string | null } | null;
  /** Recipient of mail about conditions; null for none. */
  operatorAddress: Address | null;
  /** Sender of that mail; null for postmaster at the oldest verified live domain. */
  operatorFrom: Mailbox | null;
  /** Runs `letterhaus doctor` after each start and daily, in an installation that sends live mail. */
  isDoctorDaily: boolean;
  /** A key of Spamhaus DQS, which answers through every resolver, or null to ask its public lists. */
  spamhausKey: string | null;
};

/** Length of a secret in Standard Webhooks. */
const SECRET_BYTES = { min: 24, max: 64 };

export function readOperator(read: EnvReader): OperatorConfig {
  const url = read.secret(
    'LETTERHAUS_OPERATOR_WEBHOOK',
    (text) => (URL.canParse(text) && /^https?:/i.test(text) ? text : null),
    'write it as https://alerts.example.com/letterhaus',
  );
  const secret = read.secret(
    'LETTERHAUS_OPERATOR_WEBHOOK_SECRET',
    parseSecret,
    `write whsec_ and the base64 of ${SECRET_BYTES.min} to ${SECRET_BYTES.max} random bytes (echo whsec_$(openssl rand -base64 32))`,
  );
  return {
    operatorWebhook: url === null ? null : { url, secret },
    operatorAddress: read.parsed(
      'LETTERHAUS_OPERATOR_ADDRESS',
      parseAddress,
      'write one address, such as ops@example.com',
    ),
    operatorFrom: read.parsed(
      'LETTERHAUS_OPERATOR_FROM',
      parseMailbox,
      'write it as Letterhaus <alerts@example.com>',
    ),
    isDoctorDaily: read.parsed('LETTERHAUS_DOCTOR', parseDoctor, 'write daily or off') ?? true,
    spamhausKey: read.secret(
      'LETTERHAUS_SPAMHAUS_KEY',
      (text) => (/^[a-z0-9]{16,63}$/i.test(text) ? text.toLowerCase() : null),
      'write the key of Spamhaus DQS, which has letters and digits only',
    ),
  };
}

function parseDoctor(text: string): boolean | null {
  if (/^daily$/i.test(text)) return true;
  return /^off$/i.test(text) ? false : null;
}

function parseSecret(text: string): string | null {
  const base64 = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text)?.[1];
  if (base64 === undefined) return null;
  const { length } = Buffer.from(base64, 'base64');
  return length >= SECRET_BYTES.min && length <= SECRET_BYTES.max ? text : null;
}
