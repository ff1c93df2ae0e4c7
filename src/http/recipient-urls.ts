/**
 * The URLs at which recipients reach this service: of unsubscribe pages and of tracked links. Live email needs https;
 * test email, and development on private networks, may name this machine.
 */
import type { Environment } from '../core/scope.ts';
import { PUBLIC_URL_MAX_LENGTH } from '../mail/unsubscribe-link.ts';
import type { HttpServices } from './services.ts';

/** null: emails of this environment cannot use it. */
export type RecipientUrls = {
  /** Before the links of unsubscribe pages. */
  pagesAt: string | null;
  /** Before the links of tracked emails. */
  trackedAt: string | null;
};

export function recipientUrls(
  { config, localUrl }: Pick<HttpServices, 'config' | 'localUrl'>,
  { environment }: { environment: Environment },
): RecipientUrls {
  const localWillDo = environment === 'test' || config.allowPrivateNetworks;
  const usable = (configured: string | null): string | null => {
    const url = configured ?? (localWillDo ? localUrl : null);
    if (url === null || url.length > PUBLIC_URL_MAX_LENGTH) return null;
    return url.startsWith('https://') || localWillDo ? url : null;
  };
  const { publicUrl, trackingUrl } = config;
  return { pagesAt: usable(publicUrl), trackedAt: usable(trackingUrl ?? publicUrl) };
}
