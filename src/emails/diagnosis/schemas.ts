/** Schemas of the diagnosis of an email (diagnosis.ts), in the response of `GET /v1/emails/:id/diagnosis`. */
import { z } from 'zod';
import { WAIT_LIMITS } from './sentences.ts';
import { DOMAIN_STATUSES } from '../../domains/domain-store.ts';
import { doc, idSchema, time } from '../../http/schemas.ts';
import { authentication, mailRoute } from '../../accept/dry-run/dry-run-schemas.ts';
import { reason, smtp, status } from '../schemas.ts';

const attempt = z.object({
  number: z.number().int().nullable(),
  ended_at: time('End of the attempt.').nullable(),
  duration_ms: z.number().int().nullable(),
  phase: doc(
    z.string().nullable(),
    'Step at which the attempt ended.',
    'dns',
    'connect',
    'rcpt',
    'data',
  ),
  in_doubt: z
    .boolean()
    .describe('True when the message may have arrived, because no reply to its final dot came.'),
  smtp: smtp.nullable(),
  dialogue: z.array(z.string()).describe('SMTP dialogue with the server, line by line.'),
});

const waitLimit = z.object({
  limit: doc(
    z.enum(WAIT_LIMITS),
    'Limit that the recipient waits for. `attempt`: a worker is delivering the email. `retry`: the retry ' +
      'schedule. `suspension`, `rate`, `connections`: limits of the provider. `hold`: an operator. ' +
      '`pause`, `sender`: the sending domain. `signing_key`: the service cannot decrypt its DKIM key. ' +
      '`project`: earlier mail of the project.',
  ),
  message: z.string().describe('One sentence about the limit, with its figure.'),
  until: time('End of the wait, or null when it is unknown.').nullable(),
});

const recipient = z.object({
  address: z.string(),
  kind: z.enum(['to', 'cc', 'bcc']),
  status,
  attempts: z.number().int(),
  what_happened: z.string().describe('One sentence about the last attempt.'),
  last_attempt: attempt.nullable(),
  reason: reason.nullable(),
  held_by: waitLimit
    .nullable()
    .describe('Limit that the recipient waits for now, or null when the recipient has ended.'),
  route: mailRoute
    .nullable()
    .describe('Route to the recipient, or null when DNS no longer affects it.'),
  next_step: z.string().describe('One sentence that says what to do.'),
});

export const diagnosis = z
  .object({
    object: z.literal('diagnosis'),
    id: idSchema('The email.'),
    status,
    summary: z.string(),
    created_at: time('Time of acceptance.'),
    scheduled_at: time('Scheduled time of sending, or null for at once.').nullable(),
    expires_at: time('Time of expiry. No attempt begins after it.'),
    sender: z.object({
      domain: z.string(),
      status: z.enum([...DOMAIN_STATUSES, 'removed']),
      authentication: doc(
        z.object(authentication).nullable(),
        'Authentication of the domain in the current DNS records, or null when the domain was removed.',
      ),
    }),
    recipients: z.array(recipient),
  })
  .meta({ id: 'Diagnosis' });
