/** The shapes of the lists of a key (allow-lists.ts) in requests and responses. */
import { z } from 'zod';
import { doc } from '../../http/schemas.ts';

const NETWORKS_MAX = 20;
const PATTERNS_MAX = 50;
const ENTRY_CHARACTERS_MAX = 320;

const list = (max: number, example: string) =>
  z
    .array(
      z
        .string()
        .max(ENTRY_CHARACTERS_MAX)
        .meta({ examples: [example] }),
    )
    .min(1)
    .max(max)
    .nullable();

/** The fields of a key in responses. */
export const shownAllowLists = {
  allowed_networks: doc(
    list(NETWORKS_MAX, '203.0.113.0/24'),
    'The networks from which the key may be used, over HTTP and SMTP, or null for all.',
  ),
  allowed_senders: doc(
    list(PATTERNS_MAX, 'billing@acme.com'),
    'The addresses (`billing@acme.com`), domains (`acme.com`) and subdomains (`*.acme.com`) that the key may ' +
      'send from, or null for all domains of the project.',
  ),
  allowed_recipients: doc(
    list(PATTERNS_MAX, 'acme.com'),
    'The addresses, domains and subdomains that the key may send to, or null for all.',
  ),
};

/** The fields of a key in requests. */
export const allowListFields = {
  allowed_networks: shownAllowLists.allowed_networks.optional(),
  allowed_senders: shownAllowLists.allowed_senders.optional(),
  allowed_recipients: shownAllowLists.allowed_recipients.optional(),
};
