import { z } from 'zod';
import { WAIT_LIMITS } from './sentences.ts';
import { DOMAIN_STATUSES } from '../../domains/domain-store.ts';
import { doc, idSchema, time } from '../../http/schemas.ts';
import { authentication, route } from '../../accept/dry-run-schemas.ts';
import { reason, smtp, status } from '../schemas.ts';

const attempt = z.object({
  number: z.number().int().nullable(),
  ended_at: time('When it ended.').nullable(),
  duration_ms: z.number().int().nullable(),
  phase: doc(z.string().nullable(), 'The step it ended at.', 'dns', 'connect', 'rcpt', 'data'),
  in_doubt: z.boolean().describe('The message may have arrived: no reply came to its final dot.'),
  smtp: smtp.nullable(),
  dialogue: z.array(z.string()).describe('The conversation with the server, line by line.'),
});

const waitLimit = z.object({
  limit: doc(
    z.enum(WAIT_LIMITS),
    '`attempt`: a worker is delivering it. `retry`: the retry schedule. `suspension`, `rate`, `connections`: limits ' +
      'of the provider. `hold`: an operator. `pause`, `sender`: the sending domain. `signing_key`: the service cannot ' +
      'decrypt its DKIM key. `project`: earlier mail of the project.',
  ),
  message: z.string().describe('One sentence, with the figure.'),
  until: time('When the wait ends; null: unknown.').nullable(),
});

const recipient = z.object({
  address: z.string(),
  kind: z.enum(['to', 'cc', 'bcc']),
  status,
  attempts: z.number().int(),
  what_happened: z.string().describe('The last attempt, in one sentence.'),
  last_attempt: attempt.nullable(),
  reason: reason.nullable(),
  held_by: waitLimit.nullable().describe('The limit it waits for now; null: it has ended.'),
  route: route.nullable().describe('null: DNS no longer affects the recipient.'),
  next_step: z.string().describe('What to do, in one sentence.'),
});

export const diagnosis = z
  .object({
    object: z.literal('diagnosis'),
    id: idSchema('The email.'),
    status,
    summary: z.string(),
    created_at: time('When it was accepted.'),
    scheduled_at: time('When it is, or was, to be sent; null: at once.').nullable(),
    expires_at: time('The last attempt is before this time.'),
    sender: z.object({
      domain: z.string(),
      status: z.enum([...DOMAIN_STATUSES, 'removed']),
      authentication: doc(
        z.object(authentication).nullable(),
        "The receivers' view of its records now; null: the domain was removed.",
      ),
    }),
    recipients: z.array(recipient),
  })
  .meta({ id: 'Diagnosis' });
