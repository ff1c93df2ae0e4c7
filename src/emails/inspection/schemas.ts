/** Schemas of the inspection of an email: its message, attachments and webhook deliveries (routes.ts). */
import { z } from 'zod';
import { doc, idSchema, listOf } from '../../http/schemas.ts';
import { webhookDelivery } from '../../webhooks/schemas.ts';

const size = (description: string) => doc(z.int().min(0), description, 48_213);

export const emailInspection = z
  .object({
    object: z.literal('email_inspection'),
    id: idSchema('The email.'),
    size: size('Size of the sent message in bytes.'),
    html_size: size('Size of the html in bytes. Gmail clips html above 102 KB.'),
    headers: doc(
      z.array(z.object({ name: z.string(), value: z.string() })),
      'Headers in the order of the message, unfolded and decoded.',
    ),
    attachments: z.array(
      z.object({
        number: doc(z.int().min(1), 'Number of the attachment in the path of its download.', 1),
        filename: z.string().meta({ examples: ['invoice.pdf'] }),
        content_type: z.string().meta({ examples: ['application/pdf'] }),
        content_id: doc(
          z.string().nullable(),
          'Content-ID of an inline attachment, or null. The html refers to it as `cid:<content_id>`.',
          null,
        ),
        size: size('Size of the file in bytes.'),
      }),
    ),
    checks: doc(
      z.array(
        z.object({
          code: z
            .string()
            .meta({ description: 'Stable code of the finding.', examples: ['no_unsubscribe'] }),
          message: z.string().describe('One sentence about the likely problem.'),
        }),
      ),
      'Findings, as in `lint` of a dry run, with more findings about the html.',
    ),
    unsupported: doc(
      z.array(
        z.object({
          feature: z.string().meta({ examples: ['web fonts'] }),
          clients: z.array(z.string()).meta({ examples: [['Gmail', 'Outlook']] }),
        }),
      ),
      'Features of the html that some mail programs do not show.',
    ),
    text: doc(
      z.string().nullable(),
      'Text part of the message, from the request or derived from its html.',
      'Thank you.',
    ),
    links: z.array(z.string()).meta({
      description: 'First 100 links of the html, without duplicates.',
      examples: [['https://acme.com']],
    }),
  })
  .meta({ id: 'EmailInspection' });

export const attachmentParams = z.object({
  id: idSchema('The id of the email.'),
  number: z.string().meta({ description: 'Number of the attachment, from 1.', examples: ['1'] }),
});

export const attachmentBytes = {
  description: 'Bytes of the file.',
  content: {
    'application/octet-stream': { schema: z.string().meta({ format: 'binary', examples: ['…'] }) },
  },
};

export const emailWebhookDeliveries = listOf(
  'EmailWebhookDeliveryList',
  webhookDelivery
    .extend({
      webhook_id: idSchema('Webhook of the delivery.'),
      webhook_url: z.string().meta({ examples: ['https://acme.com/hooks/mail'] }),
    })
    .meta({ id: 'EmailWebhookDelivery' }),
);
