"""The labelling desk: a pile of photos is grouped, groups are named, and labels for the rest are proposed."""
