/**
 * The reasons for which an email is refused, each with its sentence. Single emails, batches, SMTP submissions, dry
 * runs and the check before rendering (http-draft.ts) share them, so that a refusal reads the same everywhere.
 */
import { limitRefusal, type LimitState } from '../core/limits.ts';
import { KEY_REFUSED, refuseNetwork, type Refusal, refuseFields } from '../core/refusals.ts';
import { SCHEDULE_DAYS_MAX } from '../core/retry.ts';
import type { AllowLists, Caller } from '../core/scope.ts';
import { type Address, domainOf } from '../mail/address.ts';
import { matchesPattern } from '../mail/address-patterns.ts';
import { isInNetworks } from '../net/networks.ts';
import type { EmailResult, NewEmail } from './store/new-email.ts';

/** A refusal with the state of the limit that the response's headers show. */
export type SendingRefusal = Refusal & { limit?: LimitState };

export type RefusedKind = Exclude<EmailResult['outcome'], 'accepted' | 'repeated'>;

export const TOO_FAR_AHEAD = `is more than ${SCHEDULE_DAYS_MAX} days ahead; choose an earlier time`;

/** Returns the refusal of an email from another domain than the domain of the caller's key, else null. */
export function refuseOtherDomain({ domain }: Caller, fromDomain: string): Refusal | null {
  if (domain === null || domain === fromDomain) return null;
  return { refused: 'authorization_error', message: `This key may only send from ${domain}.` };
}

/** Returns whether the key is used in one of its networks. Members and the service itself have no address here. */
export function isFromAllowedNetwork(
  { clientAddress }: Pick<NewEmail, 'clientAddress'>,
  { allowedNetworks }: Pick<AllowLists, 'allowedNetworks'>,
): boolean {
  if (allowedNetworks === null || clientAddress === undefined) return true;
  return isInNetworks(allowedNetworks, clientAddress);
}

/** Returns whether the key may send this email. Notices go to the sender of an email that the key may send. */
export function refusalByLists(
  { recipients, dsn, ...email }: Pick<NewEmail, 'from' | 'submitted' | 'recipients' | 'dsn'>,
  { allowedSenders, allowedRecipients }: AllowLists,
): 'sender_refused' | 'recipient_refused' | null {
  if (dsn?.kind === 'notice') return null;
  if (allowedSenders !== null && refusedSender(email, allowedSenders) !== null) {
    return 'sender_refused';
  }
  if (allowedRecipients === null) return null;
  const isAllowed = recipients.every(({ address }) => matchesPattern(allowedRecipients, address));
  return isAllowed ? null : 'recipient_refused';
}

/** Returns the author or the Sender that the list does not have; null: it has them. */
function refusedSender(
  { from, submitted }: Pick<NewEmail, 'from' | 'submitted'>,
  allowed: readonly string[],
): Address | null {
  const shown = [from.address, submitted?.sender ?? from.address];
  return shown.find((address) => !matchesPattern(allowed, address)) ?? null;
}

/** Names the sender that the key may not use, by the lists that this process knows. */
function refuseSender(email: NewEmail): Refusal {
  const allowed = email.allowLists?.allowedSenders ?? [];
  const address = refusedSender(email, allowed) ?? email.from.address;
  return {
    refused: 'key_restricted',
    message: `This key may not send from ${address}; use one of its allowed_senders, or another key.`,
  };
}

export function refuseRecipient(address: Address): Refusal {
  return {
    refused: 'key_restricted',
    message: `This key may not send to ${address}; it is limited to its allowed_recipients.`,
  };
}

/** Names the first recipient that the key may not send to, by the lists that this process knows. */
function refuseRecipients({ recipients, allowLists }: NewEmail): Refusal {
  const allowed = allowLists?.allowedRecipients ?? null;
  const refused = recipients.find(
    ({ address }) => allowed === null || !matchesPattern(allowed, address),
  );
  return refuseRecipient((refused ?? recipients[0]!).address);
}

export function unverifiedDomainRefusal(domain: string): Refusal {
  return {
    refused: 'domain_not_verified',
    message:
      `${domain} is not a verified domain of this project and environment; ` +
      'add it, publish its records and verify it.',
  };
}

/** @param limit null: its state is unknown, or the response has it elsewhere */
export function refusalFor(
  outcome: RefusedKind,
  email: NewEmail,
  limit: LimitState | null,
): SendingRefusal {
  if (outcome === 'limited' && limit !== null) {
    return limitRefusal('sending', limit, email.recipients.length);
  }
  const refusal = refusalWithoutLimit(outcome, email);
  return outcome === 'unknown' || limit === null ? refusal : { ...refusal, limit };
}

function refusalWithoutLimit(outcome: RefusedKind, email: NewEmail): Refusal {
  switch (outcome) {
    case 'key_refused':
      return { refused: 'authentication_error', message: KEY_REFUSED };
    case 'network_refused':
      return refuseNetwork(email.clientAddress ?? 'here');
    case 'sender_refused':
      return refuseSender(email);
    case 'recipient_refused':
      return refuseRecipients(email);
    case 'schedule_refused':
      return refuseFields([{ field: scheduleFieldOf(email), message: TOO_FAR_AHEAD }]);
    case 'domain_refused':
      return unverifiedDomainRefusal(domainOf(email.from.address));
    case 'suppressed':
      return {
        refused: 'suppressed',
        message:
          'Every recipient is on the suppression list; remove the address there to mail it again.',
      };
    case 'limited':
    case 'batch_refused':
      return {
        refused: 'rate_limit_error',
        message:
          'The sending limit is too low for this email now; try again when the window of the limit has ended.',
      };
    case 'unknown':
      return {
        refused: 'service_unavailable',
        message:
          'The connection to the database was lost and this email was not accepted; try again.',
      };
  }
}

/** Returns the client's name of the field: in JSON, or in the header of a submitted message. */
function scheduleFieldOf({ submitted }: NewEmail): string {
  return submitted === null ? 'scheduled_at' : 'X-Letterhaus-Scheduled-At';
}
