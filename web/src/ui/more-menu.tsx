/** The actions of a thing that are used less, behind "…". Destruction stands last and apart. */
import { Menu } from '@base-ui/react/menu';
import { Ellipsis, type LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { keyText } from '../lib/keys.ts';
import { buttonLook } from './button.tsx';

export type MoreItem = {
  label: string;
  icon?: LucideIcon;
  onChoose: () => void;
  /** The text that shows the shortcut to the member. */
  keys?: string;
  isDestructive?: boolean;
  isDisabled?: boolean;
};

/** Items; what a member may not do is null or false. */
export type MoreItems = readonly (MoreItem | null | false | undefined)[];

export const MENU_POPUP =
  'arrive min-w-52 rounded-lg bg-raised p-1 text-sm shadow-float outline-none';
export const MENU_ITEM =
  'flex w-full items-center gap-2 rounded px-2 py-1.5 text-left outline-none data-disabled:text-muted data-highlighted:bg-hover';

/** @param props.label names the object of the menu, like "More actions for acme.com" */
export function MoreMenu({
  label = 'More actions',
  items,
  size = 'normal',
}: {
  label?: string;
  items: MoreItems;
  size?: 'normal' | 'small';
}): ReactNode {
  const shown = items.filter((item) => !!item);
  const ordinary = shown.filter(({ isDestructive }) => !isDestructive);
  const destructive = shown.filter(({ isDestructive }) => isDestructive);
  if (shown.length === 0) return null;
  const look = size === 'small' ? 'icon' : 'plain';
  return (
    <Menu.Root>
      <Menu.Trigger
        aria-label={label}
        title={label}
        className={`${buttonLook({ look, size })} px-0! ${size === 'small' ? '-mr-1.25 w-6.5' : 'w-8'}`}
      >
        <Ellipsis size={16} aria-hidden />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="z-60" align="end" sideOffset={4}>
          <Menu.Popup className={MENU_POPUP}>
            {ordinary.map((item) => (
              <Item key={item.label} item={item} />
            ))}
            {ordinary.length > 0 && destructive.length > 0 && (
              <Menu.Separator className="my-1 border-t border-line" />
            )}
            {destructive.map((item) => (
              <Item key={item.label} item={item} />
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

function Item({ item }: { item: MoreItem }): ReactNode {
  const { icon: Icon } = item;
  return (
    <Menu.Item
      onClick={item.onChoose}
      disabled={item.isDisabled === true}
      className={`${MENU_ITEM} ${item.isDestructive ? 'text-bad' : ''}`}
    >
      {Icon && <Icon size={15} aria-hidden className="shrink-0" />}
      <span className="grow">{item.label}</span>
      {item.keys && <kbd className="font-sans text-xs text-muted">{keyText(item.keys)}</kbd>}
    </Menu.Item>
  );
}
