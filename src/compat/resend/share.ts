/** `POST /emails/:id/share` of the root mount: as at `/v1` (emails/share-routes.ts), with periods like `24h`. */
import { z } from 'zod';
import { isRefusal } from '../../core/refusals.ts';
import { refuse } from '../../http/errors.ts';
import { share } from '../../emails/share-routes.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { readPeriodMs } from './wire/times.ts';
import { HIDDEN, idInPath } from './wire/shared-schemas.ts';

export function registerResendShare(app: App, services: HttpServices): void {
  app.post('/emails/:id/share', {
    config: { access: 'any_key', withinDomain: true },
    schema: { ...HIDDEN, params: idInPath, body: sharing },
    handler: async (request, reply) => {
      const periodS = readPeriodS(request.body.expires_in);
      const link = await share(services, request, { periodS, example: '24h' });
      if (isRefusal(link)) return refuse(reply, link);
      return { object: 'email', id: link.id, url: link.url };
    },
  });
}

const sharing = z.object({ expires_in: z.union([z.string(), z.number()]).nullish() });

/** Returns seconds for a number of seconds or a text like `24h`, and NaN for other text. */
function readPeriodS(period: string | number | null | undefined): number | null {
  if (period == null || typeof period === 'number') return period ?? null;
  return (readPeriodMs(period) ?? Number.NaN) / 1000;
}
