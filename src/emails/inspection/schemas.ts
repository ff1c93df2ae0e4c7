import { z } from 'zod';
import { doc, idSchema, listOf } from '../../http/schemas.ts';
import { webhookDelivery } from '../../webhooks/schemas.ts';

const size = (description: string) => doc(z.int().min(0), description, 48_213);

export const emailInspection = z
  .object({
    object: z.literal('email_inspection'),
    id: idSchema('The email.'),
    size: size('Bytes of the message as it is sent.'),
    html_size: size('Bytes of the html; Gmail clips it beyond 102 KB.'),
    headers: doc(
      z.array(z.object({ name: z.string(), value: z.string() })),
      "The message's headers, in order, unfolded and decoded.",
    ),
    attachments: z.array(
      z.object({
        number: doc(z.int().min(1), 'Its number in the path of the download.', 1),
        filename: z.string().meta({ examples: ['invoice.pdf'] }),
        content_type: z.string().meta({ examples: ['application/pdf'] }),
        content_id: doc(
          z.string().nullable(),
          'The html refers to it as `cid:<content_id>`.',
          null,
        ),
        size: size('Bytes of the file.'),
      }),
    ),
    checks: doc(
      z.array(
        z.object({
          code: z.string().meta({ description: 'A stable code.', examples: ['no_unsubscribe'] }),
          message: z.string().describe('One sentence: the likely problem.'),
        }),
      ),
      'The `lint` findings of a dry run, and more about the html.',
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
      'The text part: the text of the request, or derived from its html.',
      'Thank you.',
    ),
    links: z.array(z.string()).meta({
      description: 'The first 100 links of the html, without duplicates.',
      examples: [['https://acme.com']],
    }),
  })
  .meta({ id: 'EmailInspection' });

export const attachmentParams = z.object({
  id: idSchema('The id of the email.'),
  number: z
    .string()
    .meta({ description: 'The number of the attachment, from 1.', examples: ['1'] }),
});

export const attachmentBytes = {
  description: 'The file.',
  content: {
    'application/octet-stream': { schema: z.string().meta({ format: 'binary', examples: ['…'] }) },
  },
};

export const emailWebhookDeliveries = listOf(
  'EmailWebhookDeliveryList',
  webhookDelivery
    .extend({
      webhook_id: idSchema('Its webhook.'),
      webhook_url: z.string().meta({ examples: ['https://acme.com/hooks/mail'] }),
    })
    .meta({ id: 'EmailWebhookDelivery' }),
);
