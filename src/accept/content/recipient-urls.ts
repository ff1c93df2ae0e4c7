/**
 * Returns the base URLs of unsubscribe pages and tracked links, which recipients open. Live email needs https. Test
 * email, and development on private networks, may use this machine's address.
 */
import type { Environment } from '../../core/scope.ts';
import { PUBLIC_URL_MAX_LENGTH } from '../../mail/links/unsubscribe-link.ts';
import type { DraftRules } from '../draft.ts';

export type UrlSettings = {
  publicUrl: string | null;
  trackingUrl: string | null;
  allowPrivateNetworks: boolean;
};

export function recipientUrls(
  { publicUrl, trackingUrl, allowPrivateNetworks }: UrlSettings,
  { environment, localUrl }: { environment: Environment; localUrl: string },
): Required<Pick<DraftRules, 'pagesUrl' | 'trackingUrl'>> {
  const localWillDo = environment === 'test' || allowPrivateNetworks;
  const usable = (configured: string | null): string | null => {
    const url = configured ?? (localWillDo ? localUrl : null);
    if (url === null || url.length > PUBLIC_URL_MAX_LENGTH) return null;
    return url.startsWith('https://') || localWillDo ? url : null;
  };
  return { pagesUrl: usable(publicUrl), trackingUrl: usable(trackingUrl ?? publicUrl) };
}
