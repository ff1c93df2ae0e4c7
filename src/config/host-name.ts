/** Decides whether the host name of this machine is good enough to send mail with. */
import type { Config } from './config.ts';

/**
 * Receivers refuse mail from a host name that is not fully qualified. A relay identifies this host by password or
 * address, and private networks often have no full names.
 */
export function isUsableHostName({
  hostname,
  relay,
  allowPrivateNetworks,
}: Pick<Config, 'hostname' | 'relay' | 'allowPrivateNetworks'>): boolean {
  return hostname.includes('.') || relay !== null || allowPrivateNetworks;
}
